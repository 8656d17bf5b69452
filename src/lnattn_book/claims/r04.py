"""R4: two layers of attention are a sum of paths."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, attention_only: float, complete: float) -> dict[str, Any]:
    return {"attention_only": attention_only, "complete": complete}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["attention_only"], context["error"]) & at_most(
        measures["complete"], context["error"]
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15, 1e-14)),
        Trial("fails", FAILS, (1e-15, 1e-6)),
    ]


r4 = register_rule(
    "R4",
    measure,
    decide,
    effect=Effect("attention_only", null=0),
    trials=trials,
)
