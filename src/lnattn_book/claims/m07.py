"""M7: LayerNorm acts on each feature independently."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, moved: float) -> dict[str, Any]:
    return {"moved": moved}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["moved"], context["moved"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.0,)),
        Trial("fails", FAILS, (0.1,)),
    ]


m7 = register_rule(
    "M7",
    measure,
    decide,
    effect=Effect("moved", null=0),
    trials=trials,
)
