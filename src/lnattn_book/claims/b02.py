"""B2: LayerNorm maps a plane through 1 to two points."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most, equal
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, points: int, distinct: int, error: float) -> dict[str, Any]:
    return {"points": points, "distinct": distinct, "error": error}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return equal(measures["distinct"], 2) & at_most(measures["error"], context["error"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (100, 2, 1e-12)),
        Trial("fails", FAILS, (100, 3, 1e-12)),
        Trial("fails 2", FAILS, (100, 2, 1e-3)),
    ]


b2 = register_rule(
    "B2",
    measure,
    decide,
    effect=Effect("error", null=0, n="points"),
    trials=trials,
)
