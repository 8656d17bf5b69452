"""Bootstraps that share their draws, and blocks that make up a whole."""

from __future__ import annotations

import numpy as np
import pytest
from naming import naming

from lnattn.errors import ShapeError
from lnattn.stats import blocks, bootstrap_means, resampled_counts, resampled_ratios, spearman


def test_a_sample_has_as_many_things_as_there_are():
    drawn = resampled_counts(7, 5000, seed=1)
    assert (drawn.sum(axis=1) == 7).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 1, atol=0.1)
    np.testing.assert_allclose(drawn.var(axis=0), 6 / 7, atol=0.1)
    np.testing.assert_array_equal(drawn, resampled_counts(7, 5000, seed=1))


def test_ratios_share_their_draws():
    """What differs by a constant differs by it in every draw, however documents spread."""
    generator = np.random.default_rng(0)
    rows = generator.integers(1, 100, size=(30, 1)) * np.ones((1, 2))
    per_row = generator.normal(5, 3, size=(30, 1)) + np.array([[0.0, 0.25]])
    drawn = resampled_ratios(per_row * rows, rows, draws=400, seed=1)
    np.testing.assert_allclose(drawn[:, 1] - drawn[:, 0], 0.25, atol=1e-10)
    mean = (per_row * rows).sum(axis=0) / rows.sum(axis=0)
    weights = rows[:, 0] / rows[:, 0].sum()
    expected = np.sqrt((weights**2 * (per_row[:, 0] - mean[0]) ** 2).sum())
    assert drawn[:, 0].std() == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("n", "width", "most"), [(10, 3, 7), (1, 100, 7), (0, 3, 7), (8, 2, 4)])
def test_blocks_make_up_the_whole(n, width, most):
    found = list(blocks(n, width, most))
    assert [i for some in found for i in range(n)[some]] == list(range(n))
    assert all((some.stop - some.start) * width <= max(most, width) for some in found)


def test_blocks_are_as_long_as_they_may_be():
    assert list(blocks(5, 1, most=2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(blocks(5, 3, most=7)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(blocks(2, 9, most=7)) == [slice(0, 1), slice(1, 2)]
    assert list(blocks(3, 0, most=2)) == [slice(0, 2), slice(2, 3)]  # rows of nothing


def test_an_interval_ends_at_the_quantiles_of_resampled_means():
    """The same draws, as means of gathered values; 2.5 % and 97.5 % are written here."""
    values = np.random.default_rng(5).exponential(size=(2, 40))
    found = bootstrap_means(values, draws=300, seed=9)
    rng = np.random.default_rng(9)
    means = []
    for _ in range(300):
        drawn = rng.integers(40, size=40)
        means.append(values[:, drawn].mean(axis=1))
    np.testing.assert_allclose(found[:, 0], values.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], np.quantile(means, 0.025, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found[:, 2], np.quantile(means, 0.975, axis=0), rtol=1e-12)
    half = bootstrap_means(values, level=0.5, draws=300, seed=9)
    np.testing.assert_allclose(half[:, 1], np.quantile(means, 0.25, axis=0), rtol=1e-12)
    assert not np.array_equal(bootstrap_means(values, draws=300, seed=10), found)


def test_a_rank_correlation_by_hand():
    """Six pairs, Σd² = 8: ρ = 1 − 6·8/(6·35) = 27/35; z ± 1.959964 √((1 + ρ²/2)/3)."""
    found = spearman(np.arange(1, 7), np.array([3, 1, 2, 4, 6, 5]))
    rho = 27 / 35
    assert found.rho == pytest.approx(rho, abs=1e-12)
    half = 1.959963985 * np.sqrt((1 + rho**2 / 2) / 3)
    assert found.low == pytest.approx(np.tanh(np.arctanh(rho) - half), abs=1e-9)
    assert found.high == pytest.approx(np.tanh(np.arctanh(rho) + half), abs=1e-9)
    assert found.n == 6


@pytest.mark.parametrize("constant", ["x", "y"])
def test_a_constant_side_has_no_rank_correlation(constant):
    sides = {"x": np.arange(6.0), "y": np.arange(6.0)[::-1]}
    sides[constant] = np.ones(6)
    with pytest.raises(ShapeError, match="constant"):
        spearman(**sides)


def test_a_perfect_order_has_a_point_for_an_interval():
    found = spearman(np.arange(4), np.array([9, 7, 3, 1]))
    assert (found.rho, found.low, found.high) == (-1.0, -1.0, -1.0)
    assert str(found) == "-1.000 [-1.000, -1.000]"


def test_ties_share_their_mean_rank():
    """Ranks 1, 2.5, 2.5, 4, 5 and 1.5, 1.5, 3, 5, 4: Pearson's r of these, by hand."""
    found = spearman(np.array([1, 7, 7, 8, 9]), np.array([2, 2, 3, 9, 4]))
    # Deviations −2, −½, −½, 1, 2 and −1½, −1½, 0, 2, 1: products sum to 7¾, squares to 9½ and 9½.
    assert found.rho == pytest.approx(7.75 / 9.5, abs=1e-12)
    assert found.n == 5


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5])
def test_a_confidence_of_none_or_all_is_refused(confidence):
    with pytest.raises(ShapeError, match="confidence"):
        spearman(np.arange(6), np.array([1, 0, 2, 3, 5, 4]), confidence)


@pytest.mark.parametrize("shorter", ["x", "y"])
def test_sides_of_unequal_lengths_have_no_rank_correlation(shorter, shapes_unchecked):
    sides = {"x": np.arange(6.0), "y": np.arange(6.0)}
    sides[shorter] = sides[shorter][:5]
    with pytest.raises(ShapeError, match=naming(5, 6)):
        spearman(**sides)
