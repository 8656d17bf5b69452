"""K22: without biases in the linear layers there is no self-assertion."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, left: float) -> dict[str, Any]:
    return {"left": left}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["left"], context["left"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.0,)),
        Trial("fails", FAILS, (0.3,)),
    ]


k22 = register_rule(
    "K22",
    measure,
    decide,
    effect=Effect("left", null=0),
    trials=trials,
)
