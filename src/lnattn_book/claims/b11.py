"""B11: words that decide a sentiment can be unselectable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binom, binomtest

from lnattn_book.claims.conditions import is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, marked
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED
from lnattn_book.studies.unselectable_words import MarkedSentence


def luck_of(lost: int, words: int, base: float) -> float:
    """How likely chance loses so many words or more; of no word, how likely it loses none."""
    return float(binom.sf(lost - 1, words, base) if lost else binom.pmf(0, words, base))


def measure(
    context: RuleContext, sentences: Sequence[MarkedSentence], base: float
) -> dict[str, Any]:
    """base: share of all tokens that are unselectable in some layer."""
    marked = [
        exact
        for sentence in sentences
        for exact, bold in zip(sentence.exact, sentence.bold, strict=True)
        if bold
    ]
    lost = int(sum(marked))
    words = len(marked)
    ends = binomtest(lost, words).proportion_ci()
    return {
        "luck": luck_of(lost, words, base),
        "marked": Interval(lost, words * ends.low, words * ends.high),
        "lost": lost,
        "words": words,
        "base": base,
        "expected": base * words,
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    can = float(measures["lost"] > 0) if measures["luck"] < context["p"] else 0.5
    return Decision({"": is_true(can)}, more={"can": can})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, marked((False, True, False), 0.01)),
        Trial("one of ten is lost anyway", UNDECIDED, marked((False, True, False), 0.1)),
        Trial("fails", FAILS, marked((True, False, False), 0.9)),
        Trial("none lost, as by chance", UNDECIDED, marked((True, False, False), 0.1)),
    ]


def by_luck(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """As many words, lost as any token is."""
    lost = int(generator.binomial(measures["words"], measures["base"]))
    return {"lost": lost, "luck": luck_of(lost, measures["words"], measures["base"])}


#: What learnt nothing.
NULL = NullModel("words that are lost as any token is", by_luck)


b11 = register_rule(
    "B11",
    measure,
    decide,
    effect=Effect("marked", unit="marked words", null="expected", n="words"),
    null_model=NULL,
    trials=trials,
)
