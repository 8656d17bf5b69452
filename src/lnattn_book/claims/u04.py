"""U4: heads lose as many keys as Gaussian ones of their width."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, above, at, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule


def measure(context: RuleContext, ratio: Interval, furthest: float) -> dict[str, Any]:
    return {"ratio": ratio, "furthest": furthest}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "2 dimensions": at(
            [0],
            above(measures["ratio"], context["low"]) & below(measures["ratio"], context["high"]),
        ),
        "4 dimensions": at(
            [1],
            above(measures["ratio"], context["low"]) & below(measures["ratio"], context["high"]),
        ),
        "8 dimensions": at(
            [2],
            above(measures["ratio"], context["low"]) & below(measures["ratio"], context["high"]),
        ),
        "16 dimensions": at(
            [3],
            above(measures["ratio"], context["low"]) & below(measures["ratio"], context["high"]),
        ),
    }


#: What learnt nothing.
NULL = noise_around("keys in twice as many dimensions", {"ratio": 2.0})

u4 = register_rule(
    "U4",
    measure,
    decide,
    effect=Effect("furthest", unit="of its width", null=1),
    null_model=NULL,
)
