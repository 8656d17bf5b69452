"""K1: folding LayerNorm into the maps changes no output."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, float64: float, float32: float) -> dict[str, Any]:
    return {"float64": float64, "float32": float32}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["float64"], context["float64"]) & at_most(
        measures["float32"], context["float32"]
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15, 1e-6)),
        Trial("fails", FAILS, (1e-9, 1e-6)),
        Trial("fails 2", FAILS, (1e-15, 1e-3)),
    ]


k1 = register_rule(
    "K1",
    measure,
    decide,
    effect=Effect("float64", null=0),
    trials=trials,
)
