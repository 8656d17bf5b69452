"""B16: wider models need the scaling less."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(
    context: RuleContext, layers: Interval | float, heads: Interval | float, windows: int
) -> dict[str, Any]:
    return {"layers": layers, "heads": heads, "windows": windows}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "in the width of the model": below(measures["layers"], context["rest"]),
        "inside heads": below(measures["heads"], context["rest"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.0, 0.05, 12)),
        Trial("in part", HOLDS_IN_PART, (0.0, 0.5, 12)),
        Trial("fails", FAILS, (0.2, 0.5, 12)),
    ]


b16 = register_rule(
    "B16",
    measure,
    decide,
    effect=Effect("heads", unit="of the share is left inside heads", null=1, n="windows"),
    trials=trials,
)
