"""Waves of positions and of random positions that are as smooth."""

from __future__ import annotations

from dataclasses import replace

import families
import numpy as np
import pytest
import torch

import lnattn
from lnattn.position.curves import dominant_wave
from lnattn_book.studies.waves import smooth_curve, turns, with_smooth_positions


@pytest.mark.parametrize("length", [3.0, 12.0])
def test_a_smooth_curve_has_the_variance_and_the_step_of_another(length):
    rng = np.random.default_rng(0)
    place = np.arange(2000)
    curve = 3 * np.sin(place / length) + 7
    drawn = [smooth_curve(curve, rng) for _ in range(40)]
    steps = np.mean([np.square(np.diff(one)).mean() for one in drawn])
    assert np.allclose([one.var() for one in drawn], curve.var())
    assert np.allclose([one.mean() for one in drawn], 0, atol=1e-9)
    assert steps == pytest.approx(np.square(np.diff(curve)).mean(), rel=0.05)


def test_a_straight_line_and_noise_have_other_curves_too():
    rng = np.random.default_rng(0)
    for curve in (np.arange(50.0), rng.standard_normal(50)):
        drawn = smooth_curve(curve, rng)
        assert np.isfinite(drawn).all()
        assert drawn.var() == pytest.approx(curve.var())


@pytest.fixture(scope="module")
def waving():
    """A first layer whose positions turn three times, in all directions."""
    first = lnattn.first_layer(families.make("gpt2", torch.float64))
    context = 80
    angle = 2 * torch.pi * 3 * torch.arange(context).double() / context
    sides = torch.randn(2, first.embeddings.d_model, generator=torch.Generator().manual_seed(0))
    W_P = torch.stack([angle.sin(), angle.cos()], dim=1) @ sides.double()
    return replace(first, embeddings=replace(first.embeddings, W_P=W_P))


def test_turns_are_those_that_were_planted(waving):
    assert turns(waving) == pytest.approx(3, rel=0.05)


def test_turns_are_those_of_the_query_at_1000_of_1024():
    first = lnattn.first_layer(families.make("gpt2", torch.float64, n_embd=24, n_head=3))
    W_P = torch.randn(80, first.embeddings.d_model, generator=torch.Generator().manual_seed(3))
    drawn = replace(first, embeddings=replace(first.embeddings, W_P=W_P.double()))
    folded = lnattn.fold(first.attention)
    queries = torch.einsum("d,hdk->hk", W_P[78].double(), folded.W_Q)  # 1000 · 80 / 1024 is 78.1
    curves = torch.einsum("hk,pd,hdk->hp", queries, W_P.double(), folded.W_K)
    expected = [dominant_wave(curve.numpy()).cycles for curve in curves]
    assert turns(drawn) == pytest.approx(expected, rel=1e-9)


def test_random_positions_keep_size_and_direction_and_lose_the_wave(waving):
    drawn = [with_smooth_positions(waving, seed) for seed in range(8)]
    inner = waving.embeddings.W_P[1:-1]
    for one in drawn:
        assert torch.equal(one.embeddings.W_P[[0, -1]], waving.embeddings.W_P[[0, -1]])
        covariance = torch.cov(one.embeddings.W_P[1:-1].T)
        assert covariance.trace() == pytest.approx(torch.cov(inner.T).trace().item(), rel=1e-6)
    assert np.std([turns(one).mean() for one in drawn]) > 0.2
