"""Numbers that claims are decided by: intervals over seeds and heads, leads, nulls, all by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_majority_statistics import curves_with

from lnattn.stats import Correlation
from lnattn_book.claims import arms, ours
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.kamoda import absolute_correlations
from lnattn_book.claims.nulls import NullModel, around
from lnattn_book.claims.rules import OfNull
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN
from lnattn_book.studies.majority.long_runs import Estimate, Experiment

#: Student's t at 97.5 % with one and two degrees of freedom, and at 98.75 % with two.
T_1, T_2, T_2_OF_TWO = 12.706205, 4.302653, 6.205347


def test_what_a_measure_is_an_interval_of():
    assert tuple(Interval.of(Correlation(0.5, 0.4, 0.7, 9))) == (0.5, 0.4, 0.7)
    assert tuple(Interval.of(Estimate(3.0, 2.0, 5.0))) == (3.0, 2.0, 5.0)
    cases = Interval.of(np.array([[1.0, 5.0], [2.0, 9.0], [6.0, 7.0]]))
    assert [end.tolist() for end in cases] == [[2, 7], [1, 5], [6, 9]]


def test_intervals_of_few_runs_are_stretched_by_students_t():
    """Two means over three runs: t at 98.75 % over t at 97.5 %, each side by itself."""
    found = Interval.rows([[1.0, 0.0, 3.0], [5.0, 4.0, 6.0]]).bonferroni(3)
    stretch = T_2_OF_TWO / T_2
    np.testing.assert_allclose(found.low, [1 - stretch, 5 - stretch], rtol=1e-6)
    np.testing.assert_allclose(found.high, [1 + 2 * stretch, 5 + stretch], rtol=1e-6)
    assert found.value.tolist() == [1, 5]


def test_means_over_seeds():
    values = np.array([1.0, 2.0, 4.0, 8.0, 100.0])
    rng = np.random.default_rng(0)
    means = [values[rng.integers(5, size=5)].mean() for _ in range(10_000)]
    wanted = (23, *np.quantile(means, [0.025, 0.975]))
    assert tuple(ours.n11.measures(values)["step"]) == pytest.approx(wanted)


def test_the_median_of_things_that_are_drawn_anew():
    values = np.random.default_rng(1).exponential(size=30)
    rng = np.random.default_rng(0)
    medians = np.median(values[rng.integers(30, size=(2000, 30))], axis=1)
    wanted = (np.median(values), *np.quantile(medians, [0.025, 0.975]))
    assert tuple(Interval.bootstrap_median(values)) == pytest.approx(wanted)


def test_absolute_correlations_reach_to_0_where_their_interval_holds_it():
    """Three heads: above 0, below 0, and open; at 1 − 0.025/3 of the normal law."""
    found = absolute_correlations(
        [Correlation(*ends, 50) for ends in ((0.5, 0.4, 0.7), (-0.3, -0.5, -0.2), (0.1, -0.1, 0.2))]
    )
    stretch = 2.3939798 / 1.959964
    np.testing.assert_allclose(found.value, [0.5, 0.3, 0.1])
    wanted = np.array([0.5, 0.3, 0.1]) - stretch * np.array([0.1, 0.1, 0.1])
    np.testing.assert_allclose(found.low, wanted, rtol=1e-6)
    wanted = np.array([0.5, 0.3, 0.1]) + stretch * np.array([0.2, 0.2, 0.1])
    np.testing.assert_allclose(found.high, wanted, rtol=1e-6)


def test_arms_are_compared_at_the_end_seed_by_seed():
    """Seeds in another order, and one that only one arm has: leads of 0.3 and 0.1."""
    one = replace(curves_with([[0, 0.5], [0, 0.9], [0, 0.7]]), arm="layernorm", seeds=(3, 1, 2))
    other = replace(curves_with([[0.9, 0.6], [0.9, 0.2]]), arm="rms", seeds=(2, 3))
    runs = Experiment((one, other), {})
    half = T_1 * 0.1  # the standard error of 0.3 and 0.1
    assert arms.end_lead(runs, "layernorm", "rms") == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    found = arms.measure_leads(runs, [("rms", "layernorm")])
    assert found["seeds"] == 2
    assert found["of"] == "layernorm less rms"
    assert found["layernorm less rms"] == pytest.approx(0.2)
    ends = [float(np.squeeze(end)) for end in found["lead"]]
    assert ends == pytest.approx([20, 100 * (0.2 - half), 100 * (0.2 + half)])
    both = arms.of_arms(np.array([1.0, 3.0]), np.array([4.0, 4.0, 4.0]))
    assert tuple(both["with"]) == pytest.approx((2, 2 - T_1, 2 + T_1))
    assert tuple(both["without"]) == pytest.approx((4, 4, 4))
    assert both["runs"] == 2


@pytest.mark.parametrize(("joint", "quantile"), [(False, 1.959964), (True, 2.241403)])
def test_a_null_lies_as_far_from_its_centre_as_the_noise_goes(joint, quantile):
    """Ends 2 below and 1 above: an error of 1.5 over the normal's quantile, of two together."""
    generator = np.random.default_rng(2)
    given = Interval(np.array([9.0, 5.0]), np.array([7.0, -1.0]), np.array([10.0, 9.0]))
    drawn = [around(given, -1.0, generator, joint=joint) for _ in range(4000)]
    values = np.array([one.value for one in drawn])
    errors = np.array([1.5, 5.0]) / quantile
    assert (abs(values.mean(axis=0) + 1) < 5 * errors / 4000**0.5).all()
    np.testing.assert_allclose(values.std(axis=0), errors, rtol=0.06)
    np.testing.assert_allclose(drawn[0].value - drawn[0].low, [2, 6])
    np.testing.assert_allclose(drawn[0].high - drawn[0].value, [1, 4])


def test_what_has_no_finite_interval_lies_at_the_centre_and_reaches_everywhere():
    drawn = around(Interval(1.0, -np.inf, np.inf), 0.5, np.random.default_rng(0))
    assert tuple(map(float, drawn)) == (0.5, -np.inf, np.inf)


@pytest.mark.parametrize(
    ("verdicts", "shown"),
    [
        ({FAILS: 18, HOLDS: 2}, (HOLDS, 2)),
        ({FAILS: 19, HOLDS: 1}, (FAILS, 19)),
        ({NOT_SEEN: 16, HOLDS_IN_PART: 3, HOLDS: 1}, (HOLDS_IN_PART, 3)),
        ({FAILS: 10, HOLDS_IN_PART: 5, HOLDS: 5}, (HOLDS, 5)),
    ],
)
def test_a_null_model_has_the_best_verdict_of_more_than_one_draw_in_twenty(verdicts, shown):
    drawn = tuple(verdict for verdict, times in verdicts.items() for _ in range(times))
    of_null = OfNull({"a": 1, "b": 2}, drawn)
    assert of_null.fields(NullModel("nothing learnt")) == {
        "null_model": "nothing learnt",
        "null_verdict": shown[0],
        "null_draws": (shown[1], 20),
    }
    assert [of_null.meets(part) for part in "abc"] == [False, True, False]
    assert of_null.fields(None) == {}
