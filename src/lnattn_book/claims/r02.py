"""R2: an attention block's output is a sum over heads."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, error: float) -> dict[str, Any]:
    return {"error": error}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["error"], context["error"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15,)),
        Trial("fails", FAILS, (1e-6,)),
    ]


r2 = register_rule(
    "R2",
    measure,
    decide,
    effect=Effect("error", null=0),
    trials=trials,
)
