"""B3: a key inside the hull of the others never wins."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, equal
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(
    context: RuleContext, keys: int, proved: int, wins: int, queries: int
) -> dict[str, Any]:
    return {"keys": keys, "proved": proved, "wins": wins, "queries": queries}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return equal(measures["proved"], measures["keys"]) & equal(measures["wins"], 0)


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (9, 9, 0, 1000)),
        Trial("fails", FAILS, (9, 8, 0, 1000)),
        Trial("fails 2", FAILS, (9, 9, 1, 1000)),
    ]


b3 = register_rule(
    "B3",
    measure,
    decide,
    effect=Effect("wins", unit="wins", n="queries"),
    trials=trials,
)
