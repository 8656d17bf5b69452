"""Streaming moments and quantiles against the whole list of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.errors import ShapeError
from lnattn.numerics.streaming import LogHistogram, Moments


def test_moments_equal_those_of_the_list() -> None:
    rng = np.random.default_rng(0)
    moments = Moments((2, 5))
    rows: list[list[list[float]]] = [[[] for _ in range(5)] for _ in range(2)]
    for _ in range(40):
        n = int(rng.integers(1, 6))
        values, kept = rng.normal(3, 2, (2, n)), rng.random((2, n)) < 0.8
        moments.add(values, kept)
        for (a, b), keep in np.ndenumerate(kept):
            if keep:
                rows[a][b].append(values[a, b])
    for a in range(2):
        for b in range(5):
            cell = np.array(rows[a][b])
            assert moments.count[a, b] == len(cell) > 2
            assert moments.mean[a, b] == pytest.approx(cell.mean(), rel=1e-12)
            error = cell.std(ddof=1) / len(cell) ** 0.5
            assert moments.standard_error[a, b] == pytest.approx(error, rel=1e-9)


def test_moments_of_too_little() -> None:
    moments = Moments((3,))
    moments.add(np.array([2.0, 5.0]), np.array([True, False]))
    np.testing.assert_array_equal(moments.mean, [2.0, np.nan, np.nan])
    assert np.isnan(moments.standard_error).all()


@settings(max_examples=50, deadline=None)
@given(
    numbers=st.lists(st.one_of(st.just(0.0), st.floats(1e-11, 900.0)), min_size=1, max_size=60),
    level=st.floats(0, 1),
)
def test_quantiles_are_within_the_stated_resolution(numbers: list[float], level: float) -> None:
    histogram = LogHistogram((2,))
    values = np.array(numbers)
    histogram.add(values, np.ones(len(values), dtype=int), np.ones(len(values), dtype=bool))
    quantile = histogram.quantiles([level])
    assert np.isnan(quantile[0, 0])  # nothing came for cell 0
    expected = np.quantile(values, level, method="inverted_cdf")
    # Where level · n is an integer but for rounding, the neighbour is as good an answer.
    ranks = np.sort(values)
    near = int(np.clip(round(level * len(values)), 0, len(values) - 1))
    answers = {expected, ranks[near], ranks[max(near - 1, 0)]}
    assert any(abs(quantile[0, 1] - x) <= histogram.resolution * x * (1 + 1e-9) for x in answers)


def test_numbers_outside_the_bins_are_counted() -> None:
    histogram = LogHistogram((1,), lowest=-2, highest=2, per_octave=1)
    values = np.array([0.0, 1e-300, 1e300, 1.5])
    histogram.add(values, np.zeros(4, dtype=int), np.array([True, True, True, False]))
    assert histogram.counts.sum() == 3
    np.testing.assert_array_equal(histogram.quantiles([0.0, 0.5, 1.0])[:, 0], [0, 0, 4])


def test_pooling_an_axis() -> None:
    histogram = LogHistogram((2, 3))
    values = np.array([1.0, 2.0, 4.0])
    histogram.add(values, np.array([0, 1, 2]), np.ones(3, dtype=bool))
    pooled = histogram.quantiles([0.5], axis=1)
    assert pooled.shape == (1, 2)
    assert pooled[0, 0] == pytest.approx(2.0, rel=histogram.resolution)


def test_states_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="does not fit"):
        Moments((2,)).restore(Moments((3,)).state())
    with pytest.raises(ShapeError, match="does not fit"):
        LogHistogram((2,)).restore({})
    with pytest.raises(ShapeError, match="levels"):
        LogHistogram((2,)).quantiles([1.5])
    with pytest.raises(ShapeError, match="lowest < highest"):
        LogHistogram((2,), lowest=3, highest=3)
