"""N5: deciding words are unselectable more often than others as frequent."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.classifiers import UNSCALED, in_points, learnt
from lnattn_book.claims.conditions import above, at, at_least
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.exposure import exposure
from lnattn_book.words import Sentiment


def measure(context: RuleContext, sentiment: Sentiment) -> dict[str, Any]:
    """Per arm: are deciding words more exposed? p is of words permuted within bins."""
    exposures = [
        exposure(
            sentiment,
            arm,
            least=context["least"],
            decides=context["decides"],
            neutral=context["neutral"],
        )
        for arm in UNSCALED
    ]
    by_chance = np.array([exposed.low > 0 and exposed.p >= context["p"] for exposed in exposures])
    shares = [(exposed.difference, exposed.low, exposed.high) for exposed in exposures]
    return in_points(
        sentiment, shares, learnt(sentiment, UNSCALED, context["trained"]) & ~by_chance
    )


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "without scaling": at([0], above(measures["more"], 0)),
        "without LayerNorms": at([1], above(measures["more"], 0)),
    }
    return Decision(parts, needs={"more seeds": at_least(measures["seeds"], context["runs"])})


#: What learnt nothing.
NULL = noise_around("deciding words like any other", {"more": 0.0}, joint=True)


n5 = register_rule(
    "N5",
    measure,
    decide,
    effect=Effect("first", unit="points", null=0, n="seeds"),
    null_model=NULL,
)
