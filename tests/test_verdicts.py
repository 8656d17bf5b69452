"""Every rule on made-up results: a planted effect holds, none fails, and what lies between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up import array, contributions, written
from trials import RULES, TRIALS, Trial

from lnattn.errors import ResultError
from lnattn_book.claims import ours
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim, claims
from lnattn_book.claims.rules import At
from lnattn_book.claims.verdicts import FAILS, HOLDS, NOT_SEEN, UNDECIDED, Record, effect
from lnattn_book.studies.unselectable_words import MarkedSentence

OTHER = "somebody/tiny"


def asked(claim_id: str, *results: Any, model: str = OTHER, **named: Any) -> Record:
    """The record, after a look at what every one must have."""
    found = RULES[claim_id](*results, model=model, **named)
    assert found.words
    assert found.verdict != UNDECIDED or found.note
    assert found.interval is None or found.interval[0] <= found.estimate <= found.interval[1]
    return found


@pytest.mark.parametrize(
    ("claim_id", "trial"),
    [
        pytest.param(claim_id, trial, id=f"{claim_id}-{trial.name}")
        for claim_id, trials in TRIALS.items()
        for trial in trials
    ],
)
def test_a_rule_finds_what_was_planted_and_nothing_else(claim_id: str, trial: Trial):
    if trial.measures is None:
        model = "gpt2" if trial.own else OTHER
        found = asked(claim_id, *trial.results, model=model, **trial.named)
    else:
        rule = RULES[claim_id]
        nulls = rule.null_measures(trial.measures, OTHER, At(claim(claim_id).rule, trial.own))
        found = rule.judge(trial.measures, At(claim(claim_id).rule, trial.own), nulls)
    assert found.verdict == trial.verdict


@pytest.mark.parametrize("claim_id", TRIALS)
def test_every_rule_can_both_hold_and_fail(claim_id: str):
    trials = TRIALS[claim_id]
    verdicts = {trial.verdict for trial in trials}
    assert HOLDS in verdicts
    assert verdicts & {FAILS, NOT_SEEN}, f"nothing can fail {claim_id}"
    assert len({trial.name for trial in trials}) == len(trials)


def test_every_claim_has_a_rule_and_every_rule_is_tried():
    assert set(RULES) == set(claims()) == set(TRIALS)


def test_words_say_what_was_found():
    """Each of these was once wrong, or could be without anyone noticing."""
    falls = asked("K6", array(0.95, -0.99), [array(0.8, 0.0)] * 3)
    assert falls.words == (
        "rising to i = 50, in some head: 0 of 2 heads; rising to i = 500, in some head: 0 of 2 "
        "heads; rising to i = 1000, in some head: 0 of 2 heads; in trend, in some head: 1 of 2 "
        "heads (0); in trend, in every head: 1 of 2 heads (0)"
    )
    assert (falls.values["spearman, least"], falls.values["spearman, most"]) == (-0.99, 0.95)
    assert falls.values["rising to i = 50, most"] == 0.8
    assert effect(falls) == "−0.02 ρ (median head), exact: nothing is drawn, chance 0, n = 2"
    open_ = asked("K6", np.array([[0.95, 0.99], [0.95, 0]]), [array(1.0, 1.0)] * 3)
    assert "every head: 1 for sure, at most 2 of 2 heads" in open_.words
    # (0.5 + 0.3 + 0.1) / 3, and t = 4.303 times the standard error 0.1155 on either side.
    mixed = np.array([[6.0, 6.5], [6.1, 6.4], [6.0, 6.1]])
    scaling = asked("B10", mixed, mixed, 0.5, 5)
    assert "held out: held out 0.3 [−0.197, 0.797]" in scaling.words
    np.testing.assert_allclose(scaling.interval, (-0.197, 0.797), atol=5e-4)


def test_nothing_gives_no_verdict():
    with pytest.raises(ResultError):
        ours.n7(written(), model=OTHER)


def test_intervals_of_effects_are_those_of_what_is_drawn_anew():
    """Of a median; of a ratio that changes with the documents; of one word in seven (exact)."""
    thirds = np.array([0.0] * 30 + [1.0] * 31 + [2.0] * 30)
    assert Interval.bootstrap_median(thirds) == (1, 1, 1)
    assert Interval.bootstrap_median(np.arange(9.0)) != (1, 1, 1)
    ratio = RULES["K10"](*contributions(ep=0.1, pe=1.0, spread=0.5), model="gpt2")
    assert ratio.interval[0] < ratio.estimate < ratio.interval[1]
    one = MarkedSentence(("a",) * 7, (True, *[False] * 6), (False,) * 7, (True,) * 7)
    found = RULES["B11"]([one], 0.07, model="trained here").interval
    np.testing.assert_allclose(found, (7 * 0.00361, 7 * 0.57872), rtol=1e-3)


def test_the_ends_of_an_interval_are_the_outer_fortieths():
    """Of 10,000 draws of a ratio of sums, near enough to a normal: 1.96 standard errors."""
    generator = np.random.default_rng(3)
    over = generator.normal(2.0, 1.0, 400)
    ratio = Interval.bootstrap_ratio(over, np.ones(400), draws=10_000)
    error = over.std() / 20
    np.testing.assert_allclose(ratio.low, ratio.value - 1.96 * error, atol=0.15 * error)
    np.testing.assert_allclose(ratio.high, ratio.value + 1.96 * error, atol=0.15 * error)
