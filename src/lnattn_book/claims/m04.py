"""M4: products with the attention matrix cost O(H D N²)."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, at_least, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, over: float, under: float, h: float) -> dict[str, Any]:
    return {"over": over, "under": under, "h": h}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "a valid bound": at_most(measures["over"], context["error"]),
        "a tight one": at_least(measures["under"], -context["error"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, named={"over": 0.0, "under": 0.0, "h": 1.0}),
        Trial("fails", FAILS, named={"over": 0.5, "under": -1.0, "h": 1.0}),
    ]


m4 = register_rule(
    "M4",
    measure,
    decide,
    effect=Effect("h", unit="exponent of H", null=1),
    trials=trials,
)
