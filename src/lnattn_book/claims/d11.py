"""D11: massive coordinates of queries and keys are q₀ and k₀."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, any_of, at_least, every
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, constants
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED
from lnattn_book.switch import ConstantsStudy


def measure(context: RuleContext, weights: ConstantsStudy) -> dict[str, Any]:
    """Of the queries of every head and of the keys of every key head, in one row."""
    return {**_named(weights.massive), "in random order": Detail(weights.null_massive)}


def _named(massive: np.ndarray) -> dict[str, Any]:
    times, largest, rest = massive
    return {"times": times, "of_largest": largest, "of_rest": rest}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition]:
    is_massive = measures["times"] >= context["times"]
    largest = np.where(is_massive, measures["of_largest"], np.nan)
    beyond = largest - measures["of_rest"]
    return {
        "some have a massive coordinate": any_of(at_least(measures["times"], context["times"])),
        "it is the constant": every(at_least(largest, context["share"])),
        "more than the other coordinates": every(at_least(beyond, context["more"])),
    }


def in_random_order(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The measures of one of the models whose heads are in random order."""
    draws = measures["in random order"].value
    return _named(draws[int(generator.integers(len(draws)))])


NULL = NullModel(
    "the same embeddings; the entries of each head's weights in random order", in_random_order
)


def trials() -> list[Trial]:
    flat = [1.2, 0.9, 0.85]
    return [
        Trial("holds", HOLDS, (study([[5.0, 0.97, 0.5], [2.0, 0.4, 0.3]], flat),)),
        Trial("in part", HOLDS_IN_PART, (study([[5.0, 0.97, 0.95], [4.0, 0.9, 0.9]], flat),)),
        Trial("none is massive", NOT_SEEN, (study([[1.5, 0.97, 0.5]], flat),)),
        Trial("random heads have them", UNDECIDED, (study([[5.0, 0.97, 0.5]], [5.0, 0.97, 0.5]),)),
    ]


def study(trained: list[list[float]], null: list[float]) -> ConstantsStudy:
    """Rows of times the mean, the constant's share of the largest coordinate, and of the rest."""
    null_massive = np.tile(np.array(null)[:, None], len(trained))[None]
    return constants(len(trained), massive=np.array(trained).T, null_massive=null_massive)


d11 = register_rule(
    "D11",
    measure,
    decide,
    effect=Effect("of_largest", unit="of the energy (median)", exact=True),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
