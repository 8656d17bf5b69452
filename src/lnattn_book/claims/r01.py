"""R1: attention depends on the query and key maps by their product."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, error: float, without_bias: float) -> dict[str, Any]:
    return {"error": error, "without_bias": without_bias}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "with the query bias beside it": at_most(measures["error"], context["error"]),
        "by the product alone": at_most(measures["without_bias"], context["moved"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15, 0.0)),
        Trial("in part", HOLDS_IN_PART, (1e-15, 0.4)),
        Trial("fails", FAILS, (1e-6, 0.4)),
    ]


r1 = register_rule(
    "R1",
    measure,
    decide,
    effect=Effect("error", null="without_bias"),
    trials=trials,
)
