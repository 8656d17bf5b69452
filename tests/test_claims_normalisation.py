"""The rules on normalisation on made-up results: that hold, hold in part, fail, and decide not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lnattn.claims import normalisation
from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED
from lnattn.studies.majority.results import Curves, Experiment
from lnattn.studies.majority.training import MajorityPlan
from lnattn.studies.selectability.sentiment import Sentiment

MODEL = "trained here"
STEADY = [100.0] * 10
SLOWER = [200.0, 205, 195, 200, 202, 198, 200, 204, 196, 200]
FASTER = [50.0, 52, 48, 50, 51, 49, 50, 53, 47, 50]
WIDE = [40.0, 250] * 5


def curves(arm: str, pace: list[float], stops_at: float = 1.0) -> Curves:
    """Runs whose accuracy is 1 − exp(−epoch / pace), up to a ceiling."""
    epoch = np.arange(1001)
    accuracy = np.minimum(1 - np.exp(-epoch / np.array(pace)[:, None]), stops_at)
    nothing = np.zeros((len(pace), 3, 2))
    return Curves(
        arm=arm,
        plan=MajorityPlan(),
        seeds=tuple(range(len(pace))),
        epoch=epoch,
        **dict.fromkeys(("loss", "accuracy", "angle", "spread"), accuracy),
        queries=nothing,
        keys=nothing,
    )


def runs(**paces) -> Experiment:
    """Arms by name, with _ for -: a list of paces, or (paces, the highest accuracy)."""
    arms = ((name.replace("_", "-"), pace) for name, pace in paces.items())
    return Experiment(
        tuple(curves(a, *p) if isinstance(p, tuple) else curves(a, p) for a, p in arms), {}
    )


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        (SLOWER, HOLDS),
        (FASTER, FAILS),
        (STEADY, FAILS),  # the same, and known to be
        (WIDE, UNDECIDED),
        (SLOWER[:9], UNDECIDED),
        ((STEADY, 0.85), HOLDS_IN_PART),  # as fast to 80 %, and never at 90 %
        ((FASTER, 0.85), FAILS),  # sooner at one level and later at another
        ([70.0] * 5 + [115.0] * 5, UNDECIDED),  # not beyond 1.25 above, but below
    ],
)
def test_n1(without, expected):
    found = normalisation.n1(runs(layernorm=STEADY, rms=without), model=MODEL)
    assert found.verdict == expected
    assert "1/1.25 to 1.25" in found.rule
    assert (found.verdict == UNDECIDED) == bool(found.note)
    assert f"{'9' if without == SLOWER[:9] else '10'} seeds" in found.words


def test_a_level_that_only_the_arm_without_reaches_speaks_against_the_claim():
    found = normalisation.n1(runs(layernorm=(STEADY, 0.92), rms=STEADY), model=MODEL)
    assert found.verdict == FAILS
    assert found.values["rms over layernorm at 95%"] == 0
    assert found.values["rms over layernorm at 90%"] == pytest.approx(1)


def test_a_level_that_nobody_reaches_says_nothing():
    found = normalisation.n1(runs(layernorm=(STEADY, 0.92), rms=(SLOWER, 0.91)), model=MODEL)
    assert found.verdict == HOLDS
    assert "neither arrives at 95%" in found.words
    assert set(found.values) == {"rms over layernorm at 80%", "rms over layernorm at 90%"}
    never = normalisation.n1(runs(layernorm=(STEADY, 0.5), rms=(STEADY, 0.5)), model=MODEL)
    assert never.verdict == UNDECIDED


@pytest.mark.parametrize(
    ("rule", "pairs"),
    [
        (normalisation.n2, {"random-normal": "layernorm", "learnt-normal": "layernorm"}),
        (normalisation.n3, {"uniform-layernorm": "layernorm", "uniform-rms": "rms"}),
        (normalisation.n4, {"unnormalised": "rms"}),
    ],
)
def test_the_other_rules_ask_all_their_pairs(rule, pairs):
    names = {"layernorm", "rms", *pairs}

    def asked(changed: dict[str, list[float]]) -> str:
        paces = {name.replace("-", "_"): changed.get(name, STEADY) for name in names}
        return rule(runs(**paces), model=MODEL).verdict

    assert asked(dict.fromkeys(pairs, SLOWER)) == HOLDS
    assert asked({}) == FAILS
    first, *others = pairs
    assert asked({first: SLOWER}) == (HOLDS_IN_PART if others else HOLDS)
    assert asked({first: FASTER}) == FAILS
    assert asked(dict.fromkeys(pairs, WIDE)) == UNDECIDED
    # The same in one pair; in the other perhaps later, perhaps sooner, by more than 1.25.
    for other in others:
        assert asked({other: [100.0] * 5 + [150.0] * 5}) == UNDECIDED
        assert asked({other: [70.0] * 5 + [115.0] * 5}) == UNDECIDED
    assert asked(dict.fromkeys(pairs, (STEADY, 0.85))) == HOLDS_IN_PART


# --- the words of sentences -----------------------------------------------------------------------


def classifiers(extra=(0.0, 0.0), right=(0.8, 0.8, 0.8), seeds: int = 5, types: int = 400):
    """Half of the types decide; they are lost more often by `extra` in the arms without scaling."""
    rng = np.random.default_rng(0)
    decides = np.arange(types) % 2 == 0
    of_word = np.repeat(np.arange(types), 6)
    chance = 0.1 + np.multiply.outer([0.0, *extra], decides)
    sentences = rng.random((1, seeds, 4000))
    return Sentiment(
        right=sentences < np.array(right)[:, None, None],
        unselectable=rng.random((3, seeds, len(of_word))) < chance[:, None, of_word],
        by_layer=np.zeros((3, seeds, 4)),
        held_back=np.zeros((3, 3)),
        sentence=of_word,
        type=of_word,
        count=np.full(types, 40),
        positive=np.where(decides, 38, 20),
        record={
            "arms": ["full", "no-scaling", "none"],
            "positive_share": 0.6,
            "positive_share_of_training": 0.5,
        },
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"extra": (0.1, 0.1)}, HOLDS),
        ({"extra": (0.0, 0.1)}, HOLDS_IN_PART),
        ({}, FAILS),
        ({"extra": (-0.08, -0.08)}, FAILS),
        ({"types": 40}, UNDECIDED),  # too few words to tell
        ({"extra": (0.1, 0.1), "seeds": 4}, UNDECIDED),
    ],
)
def test_n5(given, expected):
    found = normalisation.n5(classifiers(**given), model=MODEL)
    assert found.verdict == expected
    assert (found.verdict == UNDECIDED) == bool(found.note)
    assert set(found.values) == {"difference, no-scaling", "difference, none"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"right": (0.85, 0.8, 0.75)}, HOLDS),
        ({"right": (0.85, 0.85, 0.75)}, HOLDS_IN_PART),
        ({"right": (0.8, 0.8, 0.85)}, FAILS),
        ({"right": (0.59, 0.55, 0.55)}, UNDECIDED),  # no better than the more frequent label
        ({"right": (0.85, 0.55, 0.55)}, HOLDS),  # one arm that learns is enough to tell
        ({"right": (0.85, 0.8, 0.75), "seeds": 4}, UNDECIDED),
    ],
)
def test_n6(given, expected):
    found = normalisation.n6(classifiers(**given), model=MODEL)
    assert found.verdict == expected
    assert found.values["majority"] == 0.6
    assert "the more frequent label: 60.0%" in found.words


def test_n6_is_undecided_while_one_interval_is_wide():
    """Few sentences, of which two arms fail on different ones; the third is better for certain."""
    found = classifiers(right=(0.7, 0.7, 0.95))
    right = found.right[:, :, :200].copy()
    right[1] = right[1, :, ::-1]
    given = normalisation.n6(replace(found, right=right), model=MODEL)
    assert (given.verdict, given.note[:14]) == (UNDECIDED, "more sentences")
