"""Rotary scores by frequency against the scores themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import lnattn
from experiments.nobody_reads_one.frequencies import spectrum
from lnattn.rotary.fold import MeanVectors, mean_vectors
from lnattn.rotary.weights import Rotation


def tables(turned: int, interleaved: bool, stretch: float):
    """Exact tables in float64: frequencies 1, 1/3, 1/9 …, in the layout of the rotation."""
    theta = 3.0 ** -torch.arange(turned // 2, dtype=torch.float64)
    columns = theta.repeat_interleave(2) if interleaved else theta.repeat(2)

    def at(positions, dtype):
        angle = positions[:, None].double() * columns
        return (stretch * angle.cos()).to(dtype), (stretch * angle.sin()).to(dtype)

    return at


@pytest.fixture(scope="module")
def llama():
    model = lnattn.load_first_layer("book-llama")
    return lnattn.fold_relative(model.attention.to(torch.float64)), model.embeddings.to(
        torch.float64
    )


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("unturned", [0, 4])
def test_the_curve_of_a_spectrum_is_the_term(llama, interleaved, unturned):
    """T^d of `distance_terms` at every distance, for random q₀ and k₀ and both layouts."""
    folded, embeddings = llama
    rotation = Rotation(tables(folded.d_head - unturned, interleaved, 1.2), interleaved)
    folded = replace(folded, rotation=rotation)
    generator = torch.Generator().manual_seed(7)
    q0 = torch.randn(folded.b_Q.shape, generator=generator, dtype=torch.float64)
    k0 = torch.randn(folded.b_K.shape, generator=generator, dtype=torch.float64)
    n = 40
    term = lnattn.distance_terms(
        folded, embeddings, list(range(n)), constants=MeanVectors(q0, k0)
    ).d
    found = spectrum(folded, q0, k0)
    expected = term[:, -1].flip(-1)  # the last query sees distances n − 1 … 0
    torch.testing.assert_close(found.curve(torch.arange(n)), expected, atol=1e-10, rtol=1e-10)
    assert bool(found.constant.abs().max() > 0.1) == bool(unturned)


def test_a_real_layer(llama):
    """With transformers' own tables, which are in single precision."""
    folded, embeddings = llama
    constants = mean_vectors(folded, embeddings)
    term = lnattn.distance_terms(folded, embeddings, list(range(200)), constants=constants).d
    found = spectrum(folded, constants.q0, constants.k0)
    torch.testing.assert_close(
        found.curve(torch.arange(200)), term[:, -1].flip(-1), atol=1e-4, rtol=1e-4
    )


def test_phases_that_meet(llama):
    folded, _ = llama
    generator = torch.Generator().manual_seed(1)
    key = torch.randn(folded.b_K.shape, generator=generator, dtype=torch.float64)
    query = torch.randn(folded.b_Q.shape, generator=generator, dtype=torch.float64)
    exact = spectrum(folded, query, key)
    aligned = replace(exact, phase=(-exact.theta).expand_as(exact.phase))
    torch.testing.assert_close(aligned.phase_coherence(1), torch.ones(folded.n_heads).double())
    assert bool((aligned.phase_coherence(3) < 1 - 1e-3).all())


def test_amplitude_and_phase_of_one_pair_of_coordinates_by_hand(llama):
    """q = 3 e^{iπ/3} and k = 2 e^{iπ/12}: 6 cos(θΔ + π/4), and 5 · 7 of what is not turned."""
    folded, _ = llama
    rotation = Rotation(tables(2, interleaved=False, stretch=1.0), False)
    folded = replace(folded, rotation=rotation)
    query = torch.zeros(folded.b_Q.shape, dtype=torch.float64)
    key = torch.zeros(folded.b_K.shape, dtype=torch.float64)
    query[:, :3] = torch.tensor([1.5, 1.5 * 3**0.5, 5.0], dtype=torch.float64)
    angle = torch.tensor(torch.pi / 12, dtype=torch.float64)
    key[:, :3] = torch.stack([2 * angle.cos(), 2 * angle.sin(), torch.tensor(7.0).double()])
    found = spectrum(folded, query, key)
    assert found.theta.tolist() == pytest.approx([1.0])
    torch.testing.assert_close(found.amplitude, torch.full_like(found.amplitude, 6.0))
    torch.testing.assert_close(found.phase, torch.full_like(found.phase, torch.pi / 4))
    torch.testing.assert_close(found.constant, torch.full_like(found.constant, 35.0))
    wave = 35 + 6 * torch.cos(torch.arange(5.0).double() + torch.pi / 4)
    torch.testing.assert_close(found.curve(torch.arange(5)), wave.expand(folded.n_heads, 5))
    # What no position turns meets nothing: 35 is no part of the coherence.
    for distance in (0, 2):
        expected = torch.cos(torch.tensor(distance + torch.pi / 4).double())
        found_there = found.phase_coherence(distance)
        torch.testing.assert_close(found_there, expected.expand(folded.n_heads))
