"""Training in count space against the obvious model: embed every token, attend, differentiate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.majority.head import Head, attention_of, layout_of
from experiments.majority.stack import Stack
from lnattn.errors import ShapeError
from lnattn.majority.model import (
    ARMS,
    DIRECTION,
    Arm,
    MajorityTransformer,
    arm,
    initial_parameters,
    other_normals,
    sequences,
)
from lnattn.majority.train import MajorityPlan

SMALL = MajorityPlan(examples=300, batch=100, length=20, classes=6, margin=3, epochs=4)


def disturb(stack: Stack, seed: int = 0, size: float = 0.3) -> None:
    """Move every parameter, so that no bias is 0 and no gain is 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        stack.flat += size * torch.randn(
            stack.flat.shape, generator=generator, dtype=stack.flat.dtype
        )


def model_of(stack: Stack, run: int) -> MajorityTransformer:
    """The obvious model with the parameters of one run of the stack."""
    model = MajorityTransformer(stack.arm, stack.plan.d_model, stack.plan.classes)
    model = model.to(stack.flat.dtype)
    state = {name: value[run].clone() for name, value in stack.parameters.items()}
    model.load_state_dict(state)
    return model


def oracle(stack: Stack, run: int, batch: np.ndarray) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of one batch of sequences by autograd."""
    model = model_of(stack, run)
    counts = torch.from_numpy(stack.data[run].train[batch].astype(np.int64))
    loss = model.loss(sequences(counts), counts.argmax(dim=1))
    loss.backward()
    return loss.item(), {
        # A vector that is not trained has no gradient.
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
    }


def compare(stack: Stack, tolerance: float, batches: Sequence[np.ndarray] | None = None) -> None:
    """Loss and every gradient of a batch, run by run; gradients relative to their largest entry."""
    batches = batches or stack.batches(0)[0]
    losses = stack.backward(batches)
    got = stack.layout.views(stack.flat.grad)
    for run, batch in enumerate(batches):
        loss, gradients = oracle(stack, run, batch)
        assert losses[run] == pytest.approx(loss, rel=tolerance, abs=tolerance)
        assert set(gradients) == set(got)
        largest = max(float(gradient.abs().max()) for gradient in gradients.values())
        assert largest > 1e-6
        for name, gradient in gradients.items():
            difference = float((got[name][run] - gradient).abs().max())
            assert difference <= tolerance * largest, name


#: The arms that torch's encoder layer can have.
WHOLE_ARMS = [name for name in ARMS if ARMS[name].small == "none"]


@pytest.mark.parametrize("name", WHOLE_ARMS)
def test_loss_and_gradients_equal_autograd(name):
    """float64, two runs at a time."""
    stack = Stack(arm(name), replace(SMALL, batch=240), (3, 4), dtype=torch.float64)
    disturb(stack)
    compare(stack, 1e-12)


def attention_by_torch(parameters: dict[str, torch.Tensor], chosen: Arm) -> list[torch.Tensor]:
    """Scores and values of every class, one run after the other, open to autograd."""
    found = []
    for run, e in enumerate(parameters["embedding.weight"]):
        d = e.shape[-1]
        u = parameters[DIRECTION][run] if chosen.direction != "none" else None
        y = chosen.normalise(e, u)
        W_Q, W_K, W_V = parameters["layer.self_attn.in_proj_weight"][run].chunk(3)
        s, v = (y / d if chosen.small == name else y for name in ("scores", "values"))
        scores = (s @ W_Q.T) @ (s @ W_K.T).T / math.sqrt(d)
        values = v @ W_V.T @ parameters["layer.self_attn.out_proj.weight"][run].T
        found.append((0 * scores if chosen.uniform else scores, values))
    return [torch.stack(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize("name", ARMS)
def test_scores_values_and_the_way_back_equal_autograd(name):
    """Of every arm, also of those that torch's encoder layer cannot have."""
    stack = Stack(arm(name), SMALL, (3, 4), dtype=torch.float64)
    disturb(stack)
    leaves = {key: value.clone().requires_grad_() for key, value in stack.parameters.items()}
    expected = attention_by_torch(leaves, stack.arm)
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in expected]
    torch.autograd.backward(expected, upstream)
    head = Head({key: value.numpy() for key, value in stack.parameters.items()}, stack.arm)
    for found, value in zip((head.scores, head.values), expected, strict=True):
        np.testing.assert_allclose(found, value.detach().numpy(), rtol=0, atol=1e-12)
    gradients = head.gradients(*(x.numpy() for x in upstream))
    trained = {
        "embedding.weight",
        *(key for key in leaves if "self_attn" in key and "bias" not in key),
    }
    assert set(gradients) == trained | ({DIRECTION} if stack.arm.direction == "learnt" else set())
    for key, found in gradients.items():
        exact = leaves[key].grad
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * float(exact.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_thirty_steps_of_adam_take_the_same_way(dtype):
    """Two runs of a stack against torch's own Adam on two obvious models."""
    plan = replace(SMALL, epochs=15, batch=120, learning_rate=3e-3)
    stack = Stack(arm("layernorm"), plan, (5, 6), dtype=dtype, workers=2)
    models = [model_of(stack, run) for run in range(2)]
    optimisers = [torch.optim.Adam(model.parameters(), lr=plan.learning_rate) for model in models]
    steps = 30
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
        for optimiser in optimisers
    ]
    assert plan.steps_per_epoch() * plan.epochs == steps
    tolerance = 1e-11 if dtype == torch.float64 else 1e-4
    for epoch in range(plan.epochs):
        for batches in stack.batches(epoch):
            losses = stack.step(batches)
            for run, model in enumerate(models):
                counts = torch.from_numpy(stack.data[run].train[batches[run]].astype(np.int64))
                optimisers[run].zero_grad()
                loss = model.loss(sequences(counts), counts.argmax(dim=1))
                loss.backward()
                optimisers[run].step()
                schedules[run].step()
                assert losses[run] == pytest.approx(loss.item(), rel=tolerance)
    assert stack.step_number == steps
    for run, model in enumerate(models):
        for name, value in model.named_parameters():
            torch.testing.assert_close(
                stack.parameters[name][run], value.detach(), rtol=tolerance, atol=tolerance
            )


def test_accuracy_counts_positions():
    stack = Stack(arm("layernorm"), SMALL, (0, 1), dtype=torch.float64)
    disturb(stack, size=1.0)
    losses, accuracies = stack.test()
    for run in range(2):
        counts = torch.from_numpy(stack.data[run].test.astype(np.int64))
        with torch.no_grad():
            ids, labels = sequences(counts), counts.argmax(dim=1)
            model = model_of(stack, run)
            right = (model(ids).argmax(dim=-1) == labels[:, None]).double().mean()
            assert losses[run] == pytest.approx(model.loss(ids, labels).item(), rel=1e-12)
        assert 0 < accuracies[run] < 1
        assert accuracies[run] == pytest.approx(right.item(), abs=1e-12)


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
    with pytest.raises(ShapeError, match="leave nothing of 3 dimensions"):
        other_normals(3, 2)


@pytest.mark.parametrize(("name", "moves"), [("random-normal", False), ("learnt-normal", True)])
def test_only_a_learnt_direction_moves(name, moves):
    """Each run has a direction of its own, beside the parameters that every arm starts with."""
    stack = Stack(arm(name), SMALL, (1, 2))
    start = {key: value.clone() for key, value in stack.parameters.items()}
    assert not torch.equal(*start[DIRECTION])
    usual = Stack(arm("rms"), SMALL, (1, 2)).parameters
    assert all(torch.equal(start[key], value) for key, value in usual.items())
    for batches in stack.batches(0):
        stack.step(batches)
    assert torch.equal(stack.parameters[DIRECTION], start[DIRECTION]) is not moves
    assert not torch.equal(stack.parameters["embedding.weight"], start["embedding.weight"])


def test_a_scale_of_d_undoes_the_authors_norm_at_the_start():
    """Norm 1/√d with W_Q, W_K and W_V times d has the scores and values of norm √d."""
    large, small = (
        attention_of(layout_of(parameters).views(flat[None]), arm(name))
        for name, parameters in (
            ("rms", initial_parameters(3)),
            ("authors", initial_parameters(3, scale=8.0)),
        )
        for flat in [torch.cat([value.flatten() for value in parameters.values()])]
    )
    torch.testing.assert_close(large.scores, small.scores)
    torch.testing.assert_close(large.values, small.values)


def test_uniform_attention_returns_the_mean_value():
    stack = Stack(arm("uniform-rms"), SMALL, (1,), dtype=torch.float64)
    disturb(stack)
    attention = stack.attention()
    assert not attention.scores.any()
    counts = torch.from_numpy(stack.data[0].train[:1].astype(float))
    mean = counts @ attention.values[0] / counts.sum()
    model = model_of(stack, 0)
    x = model.layer.norm1(model.embedding(sequences(counts.long())))
    bias = stack.parameters["layer.self_attn.out_proj.bias"][0]
    torch.testing.assert_close(model.layer.self_attn(x, x, x)[0], (mean + bias).expand_as(x))
