"""K2: the key bias has no effect."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, above, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, key: float, query: float) -> dict[str, Any]:
    return {"key": key, "query": query}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["key"], context["change"]) & above(measures["query"], context["change"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-15, 0.5)),
        Trial("fails", FAILS, (1e-3, 0.5)),
        Trial("a test that sees no bias at all", FAILS, (1e-15, 1e-15)),
    ]


k2 = register_rule(
    "K2",
    measure,
    decide,
    effect=Effect("key", null="query"),
    trials=trials,
)
