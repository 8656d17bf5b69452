"""D10: scores of a rotary first layer are nearly f(q, Δ) + g(q, k)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, at_least, every, most
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, constants
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED
from lnattn_book.switch import ConstantsStudy, correlation_of


def measure(context: RuleContext, weights: ConstantsStudy) -> dict[str, Any]:
    """The correlation of scores with the sum, by head."""
    return {
        "correlation": correlation_of(weights.sum_variance),
        "in random order": Detail([correlation_of(null) for null in weights.null_variance]),
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition]:
    as_reported = at_least(measures["correlation"], context["reported"])
    return {"in most heads": most(as_reported), "in every head": every(as_reported)}


def in_random_order(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The correlations of one of the models whose heads are in random order."""
    draws = measures["in random order"].value
    return {"correlation": draws[int(generator.integers(len(draws)))]}


NULL = NullModel(
    "the same embeddings; the entries of each head's weights in random order", in_random_order
)


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (study([0.97, 0.99], [0.5, 0.6]),)),
        Trial("in part", HOLDS_IN_PART, (study([0.97, 0.99, 0.5], [0.5, 0.6, 0.7]),)),
        Trial("not seen", NOT_SEEN, (study([0.8, 0.9], [0.5, 0.6]),)),
        Trial("random heads do as well", UNDECIDED, (study([0.97, 0.99], [0.98, 0.98]),)),
    ]


def study(trained: list[float], null: list[float]) -> ConstantsStudy:
    """Heads with these correlations, and those of one null."""

    def variance(correlations: list[float]) -> np.ndarray:
        fitted = np.square(correlations)
        return np.stack([fitted / 2, fitted / 2, 1 - fitted, 0 * fitted])

    trained_variance = variance(trained)
    null_variance = variance(null)[None]
    return constants(len(trained), sum_variance=trained_variance, null_variance=null_variance)


d10 = register_rule(
    "D10",
    measure,
    decide,
    effect=Effect("correlation", unit="r (median head)", exact=True),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
