"""M3: a mask added to the scores hides the future."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, is_true
from lnattn_book.claims.rules import Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, by_rows: bool, by_columns: bool) -> dict[str, Any]:
    return {"by_rows": by_rows, "by_columns": by_columns}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "over rows": is_true(measures["by_rows"]),
        "over columns": is_true(measures["by_columns"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (True, True)),
        Trial("in part", HOLDS_IN_PART, (False, True)),
        Trial("fails", FAILS, (False, False)),
    ]


m3 = register_rule(
    "M3",
    measure,
    decide,
    trials=trials,
)
