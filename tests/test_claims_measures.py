"""Numbers that claims are decided by: intervals over seeds and heads, leads, nulls, all by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import curves_with

from lnattn.stats import Correlation
from lnattn_book.claims import arms, ours
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.kamoda import absolute_correlations
from lnattn_book.claims.nulls import NONE, NullModel, flipped
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


def test_two_sorts_of_values_are_exchanged_place_by_place_half_of_the_time():
    generator = np.random.default_rng(0)
    one, other = np.zeros((2000, 3)), np.ones((2000, 3))
    dealt, rest = flipped(generator, one, other)
    assert (dealt + rest == 1).all()
    assert (dealt == dealt[:, :1]).all(), "a place is exchanged as a whole"
    assert dealt[:, 0].mean() == pytest.approx(0.5, abs=0.05)


def test_what_deals_the_arms_of_runs_keeps_their_seeds_and_the_values_of_each():
    """Seed 1 is the other arm's alone; of seeds 2 and 3 each value stays in its seed."""
    one = replace(curves_with([[0, 0.5], [0, 0.9]]), arm="layernorm", seeds=(3, 2))
    other = replace(curves_with([[0, 0.1], [0, 0.2], [0, 0.3]]), arm="rms", seeds=(1, 2, 3))
    runs = Experiment((one, other), {})
    seen = set()
    for seed in range(20):
        dealt, name = arms.exchanged(np.random.default_rng(seed), runs)
        assert name == "rms"
        ends = [dealt.of(arm).accuracy[:, -1] for arm in ("layernorm", "rms")]
        assert dealt.of("layernorm").seeds == dealt.of("rms").seeds == (3, 2)
        np.testing.assert_allclose(np.sort(ends, axis=0), [[0.3, 0.2], [0.5, 0.9]], rtol=1e-6)
        seen.add(tuple(ends[0].tolist()))
    assert len(seen) == 4


def test_a_run_backwards_rises_as_far_as_it_fell_and_random_queries_lie_anywhere():
    angle = np.array([[60.0, 40, 10], [60, 40, 10]])
    one = replace(curves_with([[0] * 3] * 2), arm="layernorm", angle=angle)
    runs = Experiment((one, replace(one, arm="rms")), {})
    falls = set()
    for seed in range(10):
        dealt, _ = arms.turned_back(np.random.default_rng(seed), runs, "rms")
        turned = dealt.of("layernorm").angle
        falls |= set((turned[:, 0] - turned[:, -1]).tolist())
    assert falls == {50, -50}
    dealt, _ = arms.random_directions(np.random.default_rng(0), runs, "rms")
    assert dealt.of("rms").queries.shape == one.queries.shape
    assert not np.array_equal(dealt.of("rms").queries, dealt.of("layernorm").queries)


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
    assert of_null.fields(NONE) == {"null_model": "no null: interval only"}
