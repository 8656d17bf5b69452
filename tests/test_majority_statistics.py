"""Statistics of majority runs: medians and ratios with their intervals, and falls of an angle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import curves_with

from lnattn.errors import ResultError
from lnattn_book.studies.majority import long_runs
from lnattn_book.studies.majority.long_runs import Experiment, median, ratio_of_medians


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
    with pytest.raises(ResultError, match="ratio"):
        ratio_of_medians(slow, np.full(10, np.inf))
    assert ratio_of_medians(np.full(10, np.inf), fast).value == np.inf


def test_slowdown_pairs_the_seeds_that_both_arms_have():
    """Seeds in another order and one of the slow arm's own; a seed alone would change the ratio."""
    fast = replace(curves_with([[0, 1, 1, 1], [0, 0, 1, 1]]), arm="layernorm", seeds=(4, 7))
    slow = replace(curves_with([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]]), seeds=(7, 5, 4))
    both = Experiment((fast, slow), {})
    found = long_runs.slowdown(both, "rms", "layernorm", accuracy=0.9)
    # Seed 4 takes 5 and 10 epochs, seed 7 takes 10 and 15: medians 7.5 and 12.5.
    assert found.value == pytest.approx(12.5 / 7.5)
    # Resampled in pairs, a ratio is that of one seed or of both; mixed, 15/5 would be the largest.
    assert (found.low, found.high) == pytest.approx((1.5, 2.0))
    assert long_runs.slowdown(both, "rms", "layernorm", accuracy=1.1) is None


def test_a_threshold_is_reached_where_a_run_is_as_good_as_it():
    """Epochs 0, 5 and 10; the third run begins above the threshold, the last never comes near."""
    rows = [[0.25, 0.5, 0.75], [0.25, 0.75, 0.5], [0.75, 0.25, 0.25], [0.25, 0.25, 0.25]]
    curves = curves_with(rows)  # loss: 1 − accuracy
    assert long_runs.epochs_to(curves, accuracy=0.75).tolist() == [10, 5, 0, np.inf]
    assert long_runs.epochs_to(curves, loss=0.25).tolist() == [10, 5, 0, np.inf]
    assert long_runs.epochs_to(curves, loss=0.5).tolist() == [5, 5, 0, np.inf]


def test_the_angle_falls_where_its_end_is_lower():
    angle = np.array([[60, 70, 20], [50, 10, 45], [30, 20, 40]], dtype=np.float32)
    found = long_runs.fall_of_the_angle(replace(curves_with([[0] * 3] * 3), angle=angle))
    assert (found.value, found.low, found.high) == (5, -10, 40)


def test_an_interval_is_of_95_percent():
    """The 250th and the 9,750th of 10,000 resampled medians, and no others."""
    values = np.random.default_rng(3).normal(size=51)
    rows = np.random.default_rng(0).integers(51, size=(10_000, 51))
    medians = np.sort(np.median(values[rows], axis=1))
    found = median(values)
    assert found.value == np.median(values)
    assert (found.low, found.high) == (medians[249], medians[9_749])
    assert found.low < medians[499]  # a band of 90 % would begin there
    assert found.high > medians[9_499]


def test_a_lag_is_0_where_the_slower_arm_alone_arrives():
    """As many times more epochs; None where neither arrives."""
    one = replace(curves_with([[0, 0, 0.8], [0, 0.8, 0.9]]), arm="layernorm")
    other = replace(curves_with([[0, 0, 0.2], [0, 0.1, 0.2]]), arm="rms")
    both = Experiment((one, other), {})
    assert long_runs.lag(both, "layernorm", "rms", accuracy=0.7) == (0, 0, 0)
    assert long_runs.lag(both, "rms", "layernorm", accuracy=0.7).value == np.inf
    assert long_runs.lag(both, "rms", "layernorm", accuracy=0.95) is None
    assert long_runs.lag(both, "layernorm", "rms", accuracy=0.1).value == pytest.approx(1.0)
    assert long_runs.lag(both, "rms", "layernorm", loss=0.95).value == pytest.approx(1.0)


def test_an_estimate_in_words():
    assert str(long_runs.Estimate(3.14159, 2.0, 25.4)) == "3.14 (2 to 25)"
    assert str(long_runs.Estimate(20.04, 19.96, np.inf)) == "20 (20 to not reached)"
    assert str(long_runs.Estimate(np.inf, np.inf, np.inf)) == "not reached"
    assert long_runs.words(-31.2) == "-31"
