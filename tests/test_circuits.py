"""Composition scores against dense matrices; copying and previous-token heads built by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_layer

from lnattn import fold, plain
from lnattn.attention.circuits import (
    KINDS,
    composition_scores,
    model_composition,
    ov_circuit,
    qk_circuit,
)
from lnattn.attention.factored import qr_r
from lnattn.attention.head_scores import (
    position_attention,
    previous_token_score,
)
from lnattn.attention.nulls import (
    rotation_moments,
    rotation_z,
)


def dense_composition(earlier, later, kind):
    """The score of every pair of heads from d × d matrices, as the definition says."""
    scores = torch.zeros(len(earlier.W_Q), len(later.W_Q), dtype=earlier.W_Q.dtype)
    for a, write in enumerate((earlier.W_V @ earlier.W_O).numpy()):
        for b in range(len(later.W_Q)):
            compare = (later.W_Q[b] @ later.W_K[b].T).numpy()
            # x_i -> x_i W_OV in the score x_i W_QK x_jᵀ; x_j -> x_j W_OV; values of values.
            read = {"Q": compare, "K": compare.T, "V": (later.W_V[b] @ later.W_O[b]).numpy()}[kind]
            scores[a, b] = plain.composition(write, read)
    return scores


@settings(max_examples=25, deadline=None)
@given(
    d_model=st.integers(1, 9),
    heads=st.integers(1, 3),
    d_head=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    folded=st.booleans(),
)
def test_composition_equals_the_dense_computation(d_model, heads, d_head, seed, kind, folded):
    one, two = (random_layer(seed + i, d_model, heads, d_head) for i in range(2))
    if folded:
        if d_model == 1:
            return  # centring leaves nothing of a single coordinate
        one, two = fold(one), fold(two)
    ours = composition_scores(one, two, kind)
    assert (ours - dense_composition(one, two, kind)).abs().max() < 1e-10
    assert ours.min() >= 0
    assert ours.max() <= 1 + 1e-12


def test_a_head_that_reads_what_another_writes_composes_fully():
    """An induction circuit by hand: keys of the later head read exactly what the earlier wrote."""
    axes = torch.eye(8, dtype=torch.float64)
    previous = random_layer(0, 8, 1, 2)
    previous = replace(previous, W_V=axes[None, :, 0:2], W_O=axes[None, 4:6])
    induction = random_layer(1, 8, 1, 2)
    induction = replace(
        induction, W_K=axes[None, :, 4:6], W_Q=axes[None, :, 0:2], W_V=axes[None, :, 0:2]
    )
    score = {kind: composition_scores(previous, induction, kind).item() for kind in KINDS}
    # ‖W_OV W_QKᵀ‖² = 2 and each factor has norm √2: the largest score two rank-2 matrices reach.
    assert score["K"] == pytest.approx(2**-0.5, abs=1e-12)
    assert score["Q"] == pytest.approx(0, abs=1e-12)
    assert score["V"] == pytest.approx(0, abs=1e-12)


def test_whole_model_equals_pair_by_pair_and_leaves_the_impossible_out():
    layers = [random_layer(i, 9, 2, 3) for i in range(4)]
    ours = model_composition(layers)
    everything = model_composition(layers, impossible=True)
    assert ours.scores.shape == (3, 4, 2, 4, 2)
    assert torch.equal(torch.isnan(ours.of("K")), ~ours.possible())
    for kind in KINDS:
        for a in range(4):
            for b in range(4):
                exact = dense_composition(layers[a], layers[b], kind)
                assert (everything.of(kind)[a, :, b] - exact).abs().max() < 1e-10
                if a < b:
                    assert (ours.of(kind)[a, :, b] - exact).abs().max() < 1e-10


def test_spectra_are_those_of_the_circuits():
    layers = [random_layer(i, 9, 2, 3) for i in range(2)]
    ours = model_composition(layers)
    for index, layer in enumerate(layers):
        exact = torch.linalg.svdvals(ov_circuit(layer).dense())[:, :3] ** 2
        exact = exact / exact.sum(-1, keepdim=True)
        assert (ours.write_spectrum[index] - exact).abs().max() < 1e-10
        assert (ours.read_spectrum[2, index] - exact).abs().max() < 1e-10
        exact = torch.linalg.svdvals(qk_circuit(layer).dense())[:, :3] ** 2
        assert (ours.read_spectrum[1, index] - exact / exact.sum(-1, keepdim=True)).abs().max() < (
            1e-10
        )


def test_scores_do_not_depend_on_scale_and_a_zero_head_scores_zero():
    one, two = random_layer(0, 8, 2, 3), random_layer(1, 8, 2, 3)
    scaled = replace(one, W_V=1e3 * one.W_V, W_O=1e-5 * one.W_O)
    pruned = replace(one, W_V=one.W_V * torch.tensor([0.0, 1.0])[:, None, None])
    for kind in KINDS:
        exact = composition_scores(one, two, kind)
        assert (composition_scores(scaled, two, kind) - exact).abs().max() < 1e-12
        ours = composition_scores(pruned, two, kind)
        assert torch.equal(ours[0], torch.zeros(2, dtype=torch.float64))
        assert (ours[1] - exact[1]).abs().max() < 1e-12


# --- null distributions -------------------------------------------------------------------------


def haar(draws, d, generator):
    q, r = torch.linalg.qr(torch.randn(draws, d, d, generator=generator, dtype=torch.float64))
    return q * torch.diagonal(r, dim1=-2, dim2=-1).sign()[:, None]


def spectrum(values):
    squares = torch.tensor(values, dtype=torch.float64) ** 2
    return squares / squares.sum()


@pytest.mark.parametrize(
    ("p", "q", "d"),
    [([1.0], [1.0], 2), ([1.0, 0.2], [3.0, 1.0, 1.0], 4), ([1.0, 1.0, 0.5], [2.0], 3)],
)
def test_rotation_moments_equal_a_simulation_with_whole_rotations(p, q, d):
    p, q = spectrum(p), spectrum(q)
    generator = torch.Generator().manual_seed(0)
    draws = p @ haar(20_000, d, generator)[:, : len(p), : len(q)].square() @ q
    mean, variance = rotation_moments(p, q, d)
    assert mean.item() == pytest.approx(1 / d)
    # Five standard errors of the mean, and of the variance (kurtosis from the sample).
    centred = draws - 1 / d
    assert abs(draws.mean() - mean) < 5 * (variance / len(draws)) ** 0.5
    error = ((centred**4).mean() - variance**2).sqrt() / len(draws) ** 0.5
    assert abs(centred.square().mean() - variance) < 5 * error
    assert variance > 0


def test_z_is_the_distance_from_the_mean_in_standard_deviations():
    layers = [random_layer(i, 16, 2, 3) for i in range(3)]
    ours = model_composition(layers)
    z = rotation_z(ours, "Q")
    p, q = ours.write_spectrum[0, 1], ours.read_spectrum[0, 2, 0]
    mean, variance = rotation_moments(p, q, 16)
    exact = (ours.of("Q")[0, 1, 2, 0] ** 2 - mean) / variance.sqrt()
    assert z[0, 1, 2, 0].item() == pytest.approx(exact.item(), abs=1e-12)
    assert torch.equal(torch.isnan(z), ~ours.possible())


# --- what single heads do -----------------------------------------------------------------------


def test_position_attention_equals_the_layer_fed_with_positions_only():
    folded = fold(random_layer(2, 8, 2, 3))
    W_P = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    folded = replace(folded, window=3)
    exact = folded.attention(W_P)
    assert (position_attention(folded, W_P) - exact).abs().max() < 1e-12
    score = previous_token_score(folded, W_P)
    by_hand = torch.stack([exact[:, i, i - 1] for i in range(1, 6)]).mean(0)
    assert (score - by_hand).abs().max() < 1e-12


def test_positions_are_divided_by_the_sigma_that_is_given():
    """Of layer 0 it is a mean over tokens; by hand, with an even number a position."""
    folded = fold(random_layer(2, 8, 2, 3))
    W_P = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sigma = torch.tensor([2.0, 0.5, 1.0, 4.0], dtype=torch.float64)
    found = position_attention(folded, W_P, sigma)
    for head in range(2):
        for i in range(4):
            query = W_P[i] / sigma[i] @ folded.W_Q[head] + folded.b_Q[head]
            scores = [float(query @ (W_P[j] / sigma[j] @ folded.W_K[head])) for j in range(i + 1)]
            weights = np.exp(np.array(scores) / folded.scale)
            np.testing.assert_allclose(found[head, i, : i + 1], weights / weights.sum(), rtol=1e-9)
    shifted = previous_token_score(folded, W_P, sigma)
    assert shifted.tolist() == pytest.approx(found[:, [1, 2, 3], [0, 1, 2]].mean(dim=1).tolist())


def rotation_draws(p, q, d_model: int, draws: int, seed: int):
    """Scores of all writers with all readers under random rotations: [draw writer reader].

    One rotation serves all pairs of a draw; only the corner of U that the ranks reach is made.
    """
    rows, cols = p.shape[-1], q.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    gaussian = torch.randn(draws, d_model, cols, generator=generator, dtype=p.dtype)
    # G = Q R with Q Haar distributed on frames (up to signs, which the squares forget).
    corner = torch.linalg.solve_triangular(
        qr_r(gaussian), gaussian[:, :rows], upper=True, left=False
    )
    return (p @ corner.square() @ q.mT).sqrt()


def test_random_rotations_have_the_moments_that_they_should():
    """Scores, not squares: the mean of their squares is 1/d, and the variance the closed form."""
    p = torch.stack([spectrum([3.0, 1.0, 0.5]), spectrum([1.0, 1.0, 1.0])])
    q = torch.stack([spectrum([2.0, 1.0]), spectrum([1.0, 0.1]), spectrum([1.0, 1.0])])
    draws = rotation_draws(p, q, 9, 20_000, seed=4)
    assert draws.shape == (20_000, 2, 3)
    squares = draws.square()
    for a in range(2):
        for b in range(3):
            mean, variance = rotation_moments(p[a], q[b], 9)
            error = float(variance) ** 0.5 / 20_000**0.5
            assert float(squares[:, a, b].mean()) == pytest.approx(1 / 9, abs=5 * error)
            assert float(mean) == pytest.approx(1 / 9)
            assert float(squares[:, a, b].var()) == pytest.approx(float(variance), rel=0.1)
    assert not torch.equal(draws, rotation_draws(p, q, 9, 20_000, seed=5))


def test_flat_spectra_of_full_rank_do_not_vary():
    """S = 1/d whatever the rotation; rounding alone would give a variance below 0."""
    for d in range(2, 80):
        flat = torch.full((d,), 1 / d, dtype=torch.float64)
        _, variance = rotation_moments(flat, flat, d)
        assert 0 <= float(variance) < 1e-15
