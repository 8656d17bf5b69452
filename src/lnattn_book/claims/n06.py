"""N6: a classifier is right more often with LayerNorm."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.classifiers import UNSCALED, in_points, learnt
from lnattn_book.claims.conditions import above, at, at_least
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.exposure import lead
from lnattn_book.words import Sentiment


def measure(context: RuleContext, sentiment: Sentiment) -> dict[str, Any]:
    """How much more often the classifier with LayerNorms is right than without scaling, or them."""
    leads = [lead(sentiment, "full", arm) for arm in UNSCALED]
    trained = learnt(sentiment, UNSCALED, context["trained"])
    return in_points(sentiment, leads, trained & learnt(sentiment, ("full",), context["trained"]))


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "than without scaling": at([0], above(measures["more"], 0)),
        "than without LayerNorms": at([1], above(measures["more"], 0)),
    }
    return Decision(parts, needs={"more seeds": at_least(measures["seeds"], context["runs"])})


#: What learnt nothing.
NULL = noise_around("classifiers that are right alike", {"more": 0.0}, joint=True)


n6 = register_rule(
    "N6",
    measure,
    decide,
    effect=Effect("first", unit="points", null=0, n="seeds"),
    null_model=NULL,
)
