"""The summary of 1/σ against forming every token–position pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import plain_rows

from lnattn import Embeddings, plain
from lnattn.errors import ShapeError
from lnattn.position.sigma import (
    assumed_inverse_sigma,
    covariance_blocks,
    inverse_sigma_bands,
    variances,
)


def embeddings(
    vocab: int, positions: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Embeddings:
    """Random rows with a mean, so that forgetting to centre shows."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(vocab + positions, d, generator=generator, dtype=torch.float64)
    rows = rows * torch.rand(vocab + positions, 1, generator=generator, dtype=torch.float64) + 0.7
    return Embeddings(rows[:vocab].to(dtype), rows[vocab:].to(dtype))


def oracle(model: Embeddings, eps: float) -> np.ndarray:
    """1/σ(e_v + p_j) by adding every pair of vectors: [position vocab]."""
    e, p = plain_rows(model)
    return 1 / plain.sigma(p[:, None] + e, eps)


@pytest.mark.parametrize(
    ("vocab", "positions", "d", "block"),
    [(3000, 7, 6, 3), (1, 5, 4, 64), (2, 1, 4, 1), (1025, 4, 3, 4)],
)
def test_mean_and_quantiles_equal_those_of_all_pairs(vocab, positions, d, block):
    model = embeddings(vocab, positions, d)
    found = inverse_sigma_bands(model, 1e-5, (0.025, 0.975), block)
    pairs = oracle(model, 1e-5)
    np.testing.assert_allclose(found.mean, pairs.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.lower, np.quantile(pairs, 0.025, axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.upper, np.quantile(pairs, 0.975, axis=1), rtol=1e-10)


@pytest.mark.parametrize("levels", [(0.0, 0.5), (0.5, 1.0), (0.3, 0.3), (0.01, 0.6), (0.0, 1.0)])
@pytest.mark.parametrize("ties", [False, True])
def test_any_two_quantiles(levels, ties):
    """In the tails and in the middle; with ties, where most values are one of four."""
    model = embeddings(2001, 3, 6)
    if ties:
        model = Embeddings(model.tokens()[:4].repeat(500, 1), model.W_P)
    bands = inverse_sigma_bands(model, 1e-5, levels)
    lower, upper = np.quantile(oracle(model, 1e-5), levels, axis=1)
    np.testing.assert_allclose(bands.lower, lower, rtol=1e-10)
    np.testing.assert_allclose(bands.upper, upper, rtol=1e-10)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_tokens_in_an_order_that_misleads_the_sample(factor):
    """Every 16th token is much shorter or longer than the others, of which it says nothing."""
    model = embeddings(1600, 2, 6)
    tokens = model.tokens().clone()
    tokens[::16] *= factor
    model = Embeddings(tokens, model.W_P)
    bands = inverse_sigma_bands(model, 1e-5, (0.2, 0.9))
    lower, upper = np.quantile(oracle(model, 1e-5), (0.2, 0.9), axis=1)
    np.testing.assert_allclose(bands.lower, lower, rtol=1e-10)
    np.testing.assert_allclose(bands.upper, upper, rtol=1e-10)


def test_single_precision_agrees_to_single_precision():
    model = embeddings(5000, 5, 32, dtype=torch.float32)
    found = inverse_sigma_bands(model, 1e-5)
    pairs = oracle(model, 1e-5)
    np.testing.assert_allclose(found.mean, pairs.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(found.upper, np.quantile(pairs, 0.975, axis=1), rtol=1e-4)


def test_covariances_and_variances_are_those_of_numpy():
    model = embeddings(9, 5, 6)
    expected = np.cov(torch.cat([model.W_P, model.W_E]).numpy(), bias=True)
    blocks = [(rows, block.clone()) for rows, block in covariance_blocks(model, 2)]
    assert [rows.start for rows, _ in blocks] == [0, 2, 4]
    found = torch.cat([block for _, block in blocks]).numpy()
    np.testing.assert_allclose(found, expected[:5, 5:], atol=1e-12)
    np.testing.assert_allclose(variances(model.W_E), np.diag(expected)[5:], rtol=1e-12)


def test_cancelling_pair_is_refused_without_epsilon_and_finite_with_it():
    rows = torch.tensor([[1.0, 3.0, 1.0, 3.0]], dtype=torch.float64)
    model = Embeddings(rows, -rows)
    with pytest.raises(ShapeError, match="ε"):
        inverse_sigma_bands(model, 0.0)
    assert inverse_sigma_bands(model, 1e-4).mean[0] == pytest.approx(100)


def test_assumed_sigma_is_exact_for_tokens_without_covariance():
    # A token that is orthogonal to the centred positions, with a variance of 2.
    positions = torch.tensor([[1.0, -1, 0, 0], [2.0, -2, 0, 0]], dtype=torch.float64)
    token = torch.tensor([[0.0, 0, 2, -2]], dtype=torch.float64)
    found = assumed_inverse_sigma(positions, 2.0, 1e-5)
    assert found.lower is None
    assert found.upper is None
    np.testing.assert_allclose(
        found.mean, inverse_sigma_bands(Embeddings(token, positions), 1e-5).mean, rtol=1e-12
    )


def test_other_levels_are_kept_with_the_band():
    model = embeddings(200, 4, 6)
    found = inverse_sigma_bands(model, 1e-5, (0.1, 0.6))
    pairs = oracle(model, 1e-5)
    assert found.quantiles == (0.1, 0.6)
    np.testing.assert_allclose(found.lower, np.quantile(pairs, 0.1, axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.upper, np.quantile(pairs, 0.6, axis=1), rtol=1e-10)
    assert inverse_sigma_bands(model, 1e-5).quantiles == (0.025, 0.975)


@pytest.mark.parametrize("levels", [(-0.1, 0.5), (0.5, 1.1), (0.6, 0.5)])
def test_levels_that_are_no_quantiles_are_refused(levels):
    with pytest.raises(ShapeError, match="quantiles"):
        inverse_sigma_bands(embeddings(20, 2, 6), 1e-5, levels)
