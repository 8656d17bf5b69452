"""The arms of the majority experiment: their norms, their directions, their attention."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lnattn.errors import ShapeError
from lnattn_book.studies.majority.encoder import (
    ARMS,
    arm,
    initial_parameters,
    other_normals,
    sequences,
)
from lnattn_book.studies.majority.train import MajorityPlan, attention_of, train

SMALL = MajorityPlan(d_model=5, classes=6, length=14, margin=2, examples=60, batch=16, epochs=3)


@pytest.mark.parametrize("name", ARMS)
def test_norms_of_the_arms(name):
    x = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.4
    chosen = arm(name)
    u = None if chosen.direction == "none" else 3 * x[0].roll(1) + 0.2
    y = chosen.normalise(x, u)
    expected = {"sqrt": math.sqrt(8), "inverse": 1 / math.sqrt(8)}
    if u is not None:
        assert float((y @ u).abs().max()) < 1e-12
        assert torch.linalg.matrix_rank(y, tol=1e-9) == 7
        torch.testing.assert_close(y, chosen.normalise(x, -5 * u))
    if chosen.norm == "none":
        assert torch.equal(y, x)
    elif chosen.norm == "sigma":
        sigma = x.var(dim=-1, unbiased=False, keepdim=True).sqrt()
        torch.testing.assert_close(y, x / sigma)
        assert y.norm(dim=-1).std() > 0.05
    else:
        torch.testing.assert_close(
            y.norm(dim=-1), torch.full((50,), expected[chosen.norm]).double()
        )
    along = y.sum(dim=-1).abs()
    assert (along < 1e-12).all() if chosen.project else (along > 0.01).any()


@pytest.mark.parametrize(("name", "lost"), [("other-normal", 1), ("three-normals", 3)])
def test_other_normal_vectors(name, lost):
    """What is projected along is gone, and nothing else: y is orthogonal to each normal vector."""
    x = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.4
    chosen = arm(name)
    normals = other_normals(8, chosen.others)
    torch.testing.assert_close(normals @ normals.mT, torch.eye(chosen.others).double())
    assert float(normals.sum(dim=-1).abs().max()) < 1e-12
    y = chosen.normalise(x)
    assert float((y @ normals.mT).abs().max()) < 1e-12
    assert torch.linalg.matrix_rank(y, tol=1e-9) == 8 - lost
    with pytest.raises(ShapeError, match="3 dimensions"):
        other_normals(3, 2)


@pytest.mark.parametrize(("name", "moves"), [("random-normal", False), ("learnt-normal", True)])
def test_only_a_learnt_direction_moves(name, moves):
    """Keys are orthogonal to the direction: to the one drawn at the start, or to another."""
    ends = [train(arm(name), replace(SMALL, learning_rate=rate)) for rate in (1e-9, 0.05)]
    before = ends[0]["keys"][0]
    after = ends[1]["keys"][0]
    u = np.linalg.svd(after, full_matrices=True)[2][-1]
    assert (np.abs(before @ u).max() < 1e-4) == (not moves)


def test_a_scale_of_d_undoes_the_authors_norm_at_the_start():
    """Norm 1/√d with W_Q, W_K and W_V times d has the scores and values of norm √d."""
    large = attention_of(initial_parameters(3), arm("rms"))
    small = attention_of(initial_parameters(3, scale=8.0), arm("authors"))
    torch.testing.assert_close(large.scores, small.scores)
    torch.testing.assert_close(large.values, small.values)


def test_uniform_attention_returns_the_mean_value():
    generator = torch.Generator().manual_seed(5)
    weights = {
        key: (value + 0.3 * torch.randn(value.shape, generator=generator)).double()
        for key, value in SMALL.parameters(arm("uniform-rms"), seed=1).items()
    }
    attention = attention_of(weights, arm("uniform-rms"))
    assert not attention.scores.any()
    counts = torch.from_numpy(SMALL.data(3).train[:1].astype(float))
    mean = counts @ attention.values / counts.sum()
    y = arm("uniform-rms").normalise(weights["embedding.weight"][sequences(counts.long())[0]])
    values = y @ weights["layer.self_attn.in_proj_weight"].chunk(3)[2].T
    exact = values.mean(dim=0, keepdim=True) @ weights["layer.self_attn.out_proj.weight"].T
    torch.testing.assert_close(mean, exact)
