"""Every rule of Brody et al. 2023 on made-up results that hold, hold in part, fail, and so on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lnattn.majority.results import Curves, Experiment
from lnattn.majority.train import MajorityPlan
from lnattn.selectability.random_keys import RandomGrid
from lnattn_book.claims import brody, brody_keys
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, RULES, UNDECIDED
from lnattn_book.words import MarkedSentence

MODEL = "trained here"


def verdict(found) -> str:
    """The verdict, after a look at what every one must have."""
    assert found.words
    assert found.rule
    assert found.verdict != UNDECIDED or found.note
    return found.verdict


def test_every_claim_of_the_paper_has_its_rule():
    assert {name for name in RULES if name[0] == "B"} == {f"B{number}" for number in range(1, 14)}


def test_b1():
    ranks = {2: 1, 8: 7}
    assert verdict(brody.b1(1e-15, ranks, 1e-12, model=MODEL)) == HOLDS
    assert verdict(brody.b1(1e-5, ranks, 1e-12, model=MODEL)) == FAILS
    assert verdict(brody.b1(1e-15, {2: 1, 8: 8}, 1e-12, model=MODEL)) == FAILS
    assert verdict(brody.b1(1e-15, ranks, 1e-5, model=MODEL)) == FAILS


def test_b2_b3():
    assert verdict(brody.b2(100, 2, 1e-12, model=MODEL)) == HOLDS
    assert verdict(brody.b2(100, 3, 1e-12, model=MODEL)) == FAILS
    assert verdict(brody.b2(100, 1, 1e-12, model=MODEL)) == FAILS
    assert verdict(brody.b2(100, 2, 1e-3, model=MODEL)) == FAILS
    assert verdict(brody.b3(9, 9, 0, 1000, model=MODEL)) == HOLDS
    assert verdict(brody.b3(9, 8, 0, 1000, model=MODEL)) == FAILS
    assert verdict(brody.b3(9, 9, 1, 1000, model=MODEL)) == FAILS


# --- majority ---------------------------------------------------------------------------------


def curves(arm: str, pace: list[float], *, fall=(30.0,), tilt=(10.0,), stops_at: float = 1.0):
    """Runs whose accuracy is 1 − exp(−epoch / pace), whose loss is one minus that, and so on."""
    epoch = np.arange(0, 1001)
    accuracy = np.minimum(1 - np.exp(-epoch / np.array(pace)[:, None]), stops_at)
    runs = len(pace)
    falls = np.resize(np.array(fall, dtype=float), runs)[:, None]
    tilts = np.radians(np.resize(np.array(tilt, dtype=float), runs))
    # A direction that is `tilt` away from 1, towards a vector of the plane.
    ones, plane = np.ones(3) / np.sqrt(3), np.array([1.0, -1, 0]) / np.sqrt(2)
    queries = np.cos(tilts)[:, None] * ones + np.sin(tilts)[:, None] * plane
    return Curves(
        arm=arm,
        plan=MajorityPlan(d_model=3, classes=4),
        seeds=tuple(range(runs)),
        epoch=epoch,
        loss=1 - accuracy,
        accuracy=accuracy,
        angle=60 - falls * epoch / epoch[-1],
        spread=accuracy,
        queries=np.repeat(queries[:, None], 4, axis=1),
        keys=np.repeat(queries[:, None], 4, axis=1),
    )


def beside(pace, **other) -> Experiment:
    """An arm with projection at pace 100, and one without at another pace."""
    runs = len(pace)
    with_it = {name: other.pop(name) for name in ("fall", "tilt") if name in other}
    return Experiment(
        (
            curves("layernorm", [100.0] * runs, **with_it),
            curves("rms", pace, **{name.removesuffix("_without"): v for name, v in other.items()}),
        ),
        {},
    )


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        ([300, 310, 290, 300, 305, 295], HOLDS),
        ([150, 155, 145, 150, 152, 148], HOLDS_IN_PART),
        ([100, 101, 99, 100, 102, 98], FAILS),
        ([50, 52, 48, 50, 51, 49], FAILS),
        ([40, 60, 80, 260, 300, 320], UNDECIDED),
        ([300, 310, 290, 300], UNDECIDED),
    ],
)
def test_b4_goes_by_intervals_at_every_level(pace, expected):
    found = brody.b4(beside(pace), "rms", model=MODEL)
    assert verdict(found) == expected
    if len(pace) > 4:
        assert set(found.values) == {"70%", "80%", "85%", "90%", "loss 0.5"}


def test_b4_is_undecided_only_where_every_level_is_open():
    """Wide by accuracy; by loss the arms arrive alike, or the one without projection sooner."""
    wide = beside([40, 60, 80, 260, 300, 320])
    alike = replace(wide.curves[1], loss=wide.curves[0].loss)
    found = brody.b4(Experiment((wide.curves[0], alike), {}), "rms", model=MODEL)
    assert verdict(found) == UNDECIDED
    assert "above 1 at 0, above 2 at 0 of 5 levels" in found.note
    sooner = replace(alike, loss=curves("rms", [50.0] * 6).loss)
    found = brody.b4(Experiment((wide.curves[0], sooner), {}), "rms", model=MODEL)
    assert verdict(found) == FAILS


def test_b4_takes_no_level_that_neither_arm_ever_has():
    both = beside([300] * 6, stops_at_without=0.82)
    fast = curves("layernorm", [100.0] * 6, stops_at=0.82)
    found = brody.b4(Experiment((fast, both.curves[1]), {}), "rms", model=MODEL)
    assert set(found.values) == {"70%", "80%", "loss 0.5"}
    assert verdict(found) == HOLDS
    never = [curves(name, [100.0] * 6, stops_at=0.3) for name in ("layernorm", "rms")]
    unknown = brody.b4(Experiment(tuple(never), {}), "rms", model=MODEL)
    assert verdict(unknown) == UNDECIDED
    assert "longer runs" in unknown.note


def test_b4_fails_where_only_the_arm_without_projection_arrives():
    fast = curves("layernorm", [100.0] * 6, stops_at=0.82)
    found = brody.b4(Experiment((fast, beside([300] * 6).curves[1]), {}), "rms", model=MODEL)
    assert found.values["90%"] == 0
    assert verdict(found) == FAILS


def test_b4_holds_where_the_slower_arm_never_arrives():
    found = brody.b4(beside([300] * 6, stops_at_without=0.75), "rms", model=MODEL)
    assert found.values["90%"] == "not reached"
    assert verdict(found) == HOLDS


def test_b4_is_in_part_where_only_some_levels_show_it():
    # As fast up to 82 %, and then never there.
    found = brody.b4(beside([100] * 6, stops_at_without=0.82), "rms", model=MODEL)
    assert verdict(found) == HOLDS_IN_PART


def test_b5():
    def asked(with_it, without, runs=6):
        both = beside([100] * runs, fall=with_it, fall_without=without)
        return verdict(brody.b5(both, "rms", model=MODEL))

    assert asked([30], [5]) == HOLDS
    assert asked([30, 30, 5], [5, 5, 30]) == HOLDS_IN_PART
    assert asked([30], [5, 5, 30]) == HOLDS_IN_PART
    assert asked([30], [30]) == FAILS
    assert asked([5], [5]) == FAILS
    assert asked([30, 5], [5]) == FAILS
    assert asked([30], [5], runs=4) == UNDECIDED
    few = Experiment((curves("layernorm", [100.0] * 6), curves("rms", [100.0] * 4, fall=[5])), {})
    assert verdict(brody.b5(few, "rms", model=MODEL)) == UNDECIDED


def test_b6():
    def asked(with_it, without, runs=6):
        both = beside([100] * runs, tilt=with_it, tilt_without=without)
        return brody.b6(both, "rms", model=MODEL)

    assert verdict(asked([10], [50])) == HOLDS
    assert verdict(asked([10, 10, 60], [50])) == HOLDS_IN_PART
    assert verdict(asked([60], [50])) == FAILS
    assert verdict(asked([10], [10])) == FAILS
    assert verdict(asked([10], [50], runs=2)) == UNDECIDED
    assert asked([10], [50]).values == pytest.approx({"with": 10, "without": 50})


@pytest.mark.parametrize(
    ("other", "several", "expected"),
    [
        (0.0, 0.0, HOLDS),
        (0.0, -0.1, HOLDS_IN_PART),
        (-0.05, 0.0, FAILS),
        (0.05, 0.05, HOLDS),
    ],
)
def test_b13(other, several, expected):
    def asked(noise, runs=6):
        arms = (("layernorm", 0.0), ("other-normal", other), ("three-normals", several))
        wiggle = noise * np.random.default_rng(1).normal(size=(3, runs))
        found = [curves(name, [100.0] * runs) for name, _ in arms]
        ends = [
            replace(one, accuracy=one.accuracy - 0.5 + by + own[:, None])
            for one, (_, by), own in zip(found, arms, wiggle, strict=True)
        ]
        return brody.b13(
            Experiment(tuple(ends), {}), "other-normal", ["three-normals"], model=MODEL
        )

    assert verdict(asked(0.001)) == expected
    if other == 0:
        assert verdict(asked(0.05)) == UNDECIDED
        assert verdict(asked(0.001, runs=4)) == UNDECIDED
        assert "by the rule before it" in asked(0.001).note


def test_b12():
    assert verdict(brody_keys.b12([584, 413_752, 446_250], model="no model")) == HOLDS
    assert verdict(brody_keys.b12([584, 413_499, 446_250], model="no model")) == HOLDS_IN_PART
    assert verdict(brody_keys.b12([585, 413_499, 458_458], model="no model")) == FAILS


# --- unselectable keys -------------------------------------------------------------------------


def grid(share) -> RandomGrid:
    """A grid with these mean shares [n d] of 10, 20 and 40 keys."""
    counts = np.array([10, 20, 40])
    lost = (np.array(share) * counts[:, None]).round().astype(np.int64)[..., None]
    return RandomGrid(counts, np.array([3, 8]), lost, False, 0, 0)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ([[0.2, 0], [0.4, 0], [0.7, 0.1]], HOLDS),
        ([[0.2, 0], [0.3, 0], [0.4, 0.1]], HOLDS_IN_PART),
        ([[0.2, 0], [0.8, 0], [0.7, 0.1]], HOLDS_IN_PART),
        ([[0.2, 0.3], [0.1, 0.3], [0, 0.1]], FAILS),
    ],
)
def test_b7(share, expected):
    assert verdict(brody_keys.b7(grid(share), model=MODEL)) == expected


@pytest.mark.parametrize("name", ["b8", "b9"])
def test_b8_b9_go_by_half_of_what_is_reported(name):
    def asked(*shares):
        more = [np.array([0.3] * 4)] if name == "b8" else []
        return getattr(brody_keys, name)(np.array(shares), *more, model=MODEL)

    assert verdict(asked([0.5, 0.4, 0.4, 0.4], [0.5, 0.3, 0.3, 0.3])) == HOLDS
    assert verdict(asked([0.5, 0.4, 0.4, 0.05])) == HOLDS_IN_PART
    # A layer with next to none is no confirmation, whatever the model with scaling does.
    assert verdict(asked([0.5, 0.4, 0.4, 0.009])) == FAILS
    assert verdict(asked([0.0] * 4)) == FAILS
    found = asked([0.5, 0.4, 0.4, 0.4], [0.5, 0.4, 0.1, 0.4])
    assert found.values["layer 1"] == pytest.approx(50)
    assert "up to 13.9 points" in found.note if name == "b9" else "up to 9.7 points" in found.note
    assert "seeds differ by up to 30.0" in found.note


def test_b10_goes_by_the_interval():
    better = [[6.0, 6.5], [6.1, 6.58], [6.0, 6.49]]
    mixed = [[6.0, 6.5], [6.1, 6.4], [6.0, 6.1]]  # lower in every pair, by chance as like as not
    worse = [[with_out, with_] for with_, with_out in better]

    def found(held_out, training, tokens=0.5, rates=5):
        losses = np.array(held_out), np.array(training)
        return brody_keys.b10(*losses, tokens, rates, model=MODEL)

    def asked(*arguments, **options):
        return verdict(found(*arguments, **options))

    assert asked(better, better) == HOLDS
    assert asked(better, mixed) == HOLDS_IN_PART
    assert asked(mixed, mixed) == asked(mixed, worse) == UNDECIDED
    assert "by the rule before it: holds" in found(mixed, mixed).note
    assert asked(worse, worse) == FAILS
    assert asked(better, better, tokens=0.003) == UNDECIDED
    assert asked(worse, worse, rates=1) == UNDECIDED
    assert asked(better[:2], better[:2]) == UNDECIDED
    assert "2 pairs of runs" in found(better[:2], better[:2]).note
    # (0.5 + 0.3 + 0.1) / 3, and t = 4.303 times the standard error 0.1155 on either side.
    assert "held out lower with scaling by 0.300 nats [−0.197, 0.797]" in found(mixed, mixed).note


def test_b11_asks_whether_such_words_exist():
    def asked(exact):
        words = ("a", "great", "film")
        one = MarkedSentence(words, exact, (False,) * 3, (False, True, False))
        return brody_keys.b11([one, one], 0.1, model=MODEL)

    found = asked((False, True, False))
    assert verdict(found) == HOLDS
    assert "probability 19%" in found.note
    assert verdict(asked((True, False, False))) == HOLDS_IN_PART
    assert verdict(asked((False, False, False))) == FAILS
