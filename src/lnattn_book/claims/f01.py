"""F1: LayerNorm and attention can be written anew, with d × d maps."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, at_most, equal
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, error: float, rows: int, columns: int) -> dict[str, Any]:
    return {"error": error, "rows": rows, "columns": columns}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "the same outputs": at_most(measures["error"], context["error"]),
        "maps of a head are d × d": equal(measures["rows"], measures["columns"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15, 8, 8)),
        Trial("in part", HOLDS_IN_PART, (1e-15, 8, 2)),
        Trial("fails", FAILS, (1e-3, 8, 2)),
    ]


f1 = register_rule(
    "F1",
    measure,
    decide,
    effect=Effect("error", null=0),
    trials=trials,
)
