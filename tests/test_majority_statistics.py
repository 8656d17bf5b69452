"""Statistics of majority runs: medians and ratios with their intervals, and falls of an angle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.errors import ResultError
from lnattn.majority import results
from lnattn.majority.results import Curves, Experiment, median, ratio_of_medians
from lnattn.majority.train import MajorityPlan


def curves_with(accuracy: list[list[float]]) -> Curves:
    values = np.array(accuracy, dtype=np.float32)
    points = np.zeros_like(values)
    runs, size = values.shape
    return Curves(
        arm="rms",
        plan=MajorityPlan(),
        seeds=tuple(range(runs)),
        epoch=np.arange(size) * 5,
        loss=1 - values,
        accuracy=values,
        angle=points,
        spread=points,
        queries=np.zeros((runs, 2, 3)),
        keys=np.zeros((runs, 2, 3)),
    )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.one_of(st.floats(1, 100), st.just(np.inf)), min_size=1, max_size=10),
    st.integers(0, 3),
)
def test_intervals_hold_the_median(values, seed):
    found = median(np.array(values), seed=seed)
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    assert found.value == pytest.approx(middle)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)


def test_ratio_is_paired_and_covers_its_value():
    rng = np.random.default_rng(0)
    fast = rng.uniform(50, 150, 10)
    slow = 3 * fast
    exact = ratio_of_medians(slow, fast)
    assert [exact.value, exact.low, exact.high] == pytest.approx([3, 3, 3])
    loose = ratio_of_medians(rng.permutation(slow), fast)
    assert loose.low < 3 < loose.high
    with pytest.raises(ResultError, match="no ratio"):
        ratio_of_medians(slow, np.full(10, np.inf))
    assert ratio_of_medians(np.full(10, np.inf), fast).value == np.inf


def test_slowdown_pairs_the_seeds_that_both_arms_have():
    """Seeds in another order and one of the slow arm's own; a seed alone would change the ratio."""
    fast = replace(curves_with([[0, 1, 1, 1], [0, 0, 1, 1]]), arm="layernorm", seeds=(4, 7))
    slow = replace(curves_with([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]]), seeds=(7, 5, 4))
    both = Experiment((fast, slow), {})
    found = results.slowdown(both, "rms", "layernorm", accuracy=0.9)
    # Seed 4 takes 5 and 10 epochs, seed 7 takes 10 and 15: medians 7.5 and 12.5.
    assert found.value == pytest.approx(12.5 / 7.5)
    # Resampled in pairs, a ratio is that of one seed or of both; mixed, 15/5 would be the largest.
    assert (found.low, found.high) == pytest.approx((1.5, 2.0))
    assert results.slowdown(both, "rms", "layernorm", accuracy=1.1) is None


def test_the_angle_falls_where_its_end_is_lower():
    angle = np.array([[60, 70, 20], [50, 10, 45], [30, 20, 40]], dtype=np.float32)
    found = results.fall_of_the_angle(replace(curves_with([[0] * 3] * 3), angle=angle))
    assert (found.value, found.low, found.high) == (5, -10, 40)
