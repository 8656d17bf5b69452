"""The rules on normalisation on made-up results: that hold, hold in part, fail, and decide not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lnattn.majority.results import Curves, Experiment
from lnattn.majority.train import MajorityPlan
from lnattn_book.claims import normalisation
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED
from lnattn_book.words import Sentiment

MODEL = "trained here"
RULES = {
    normalisation.n1: {"rms": "layernorm"},
    normalisation.n2: {"random-normal": "layernorm", "learnt-normal": "layernorm"},
    normalisation.n3: {"uniform-layernorm": "layernorm", "uniform-rms": "rms"},
    normalisation.n4: {"unnormalised": "rms"},
}


def curves(arm: str, ends: np.ndarray) -> Curves:
    """Runs that end with these shares of right answers; all alike until then."""
    early = np.linspace(0.05, 0.7, 30)[None].repeat(len(ends), axis=0)
    accuracy = np.concatenate([early, np.linspace(early[:, -1], ends, 70, axis=1)], axis=1)
    nothing = np.zeros((len(ends), 3, 2))
    return Curves(
        arm=arm,
        plan=MajorityPlan(),
        seeds=tuple(range(len(ends))),
        epoch=np.arange(1, 101),
        **dict.fromkeys(("loss", "accuracy", "angle", "spread"), accuracy),
        queries=nothing,
        keys=nothing,
    )


def runs(seeds: int = 10, **less: float | np.ndarray) -> Experiment:
    """Arms by name, with _ for -, and how much less each gets right at the end."""
    noise = 0.9 + np.linspace(-0.01, 0.01, seeds)
    wiggle = 0.001 * np.random.default_rng(0).normal(size=(len(less), seeds))
    names = [name.replace("_", "-") for name in less]
    ends = zip(names, less.values(), wiggle, strict=True)
    return Experiment(tuple(curves(name, noise - by + w) for name, by, w in ends), {})


@pytest.mark.parametrize("rule", RULES)
def test_the_ends_of_all_pairs_decide(rule):
    pairs = RULES[rule]
    names = {"layernorm", "rms", *pairs}

    def asked(seeds: int = 10, **changed: float | np.ndarray):
        given = {name.replace("-", "_"): changed.get(name, 0.0) for name in names}
        return rule(runs(seeds, **given), model=MODEL)

    first, *others = pairs
    assert asked(**dict.fromkeys(pairs, 0.02)).verdict == HOLDS
    assert asked(**{first: 0.02}).verdict == (HOLDS_IN_PART if others else HOLDS)
    assert asked(**{first: -0.02}).verdict == FAILS
    assert asked(9, **dict.fromkeys(pairs, 0.02)).verdict == UNDECIDED
    same = asked()
    assert same.verdict == UNDECIDED
    assert same.note.startswith("no difference is seen")
    assert "rule changed after the numbers on 23 Nov 2026" in same.note
    # A large difference of which the runs are of two minds.
    assert asked(**{first: np.tile([0.1, -0.09], 5)}).verdict == UNDECIDED


def test_n4_holds_in_part_where_one_norm_is_better_than_none():
    found = normalisation.n4(runs(layernorm=0.0, rms=0.02, unnormalised=0.02), model=MODEL)
    assert found.verdict == HOLDS_IN_PART


def test_the_rule_before_went_by_the_level_that_is_reached_last():
    """Two arms that part at the last level that one of them reaches."""
    found = normalisation.n1(runs(layernorm=0.0, rms=0.2), model=MODEL)
    assert "by the rule before it: holds" in found.note
    assert found.values["layernorm less rms"] == pytest.approx(0.2, abs=1e-3)


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
        ({"extra": (0.1, 0.1), "right": (0.8, 0.8, 0.55)}, UNDECIDED),  # one learnt nothing
    ],
)
def test_n5(given, expected):
    found = normalisation.n5(classifiers(**given), model=MODEL)
    assert found.verdict == expected
    assert set(found.values) == {"difference, no-scaling", "difference, none"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"right": (0.85, 0.8, 0.75)}, HOLDS),
        ({"right": (0.85, 0.85, 0.75)}, HOLDS_IN_PART),
        ({"right": (0.8, 0.8, 0.85)}, FAILS),
        ({"right": (0.59, 0.55, 0.55)}, UNDECIDED),  # no better than the more frequent label
        ({"right": (0.85, 0.55, 0.55)}, UNDECIDED),  # nor is one arm that learns enough
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
