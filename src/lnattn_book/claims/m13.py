"""M13: the attention matrix is normalised over columns."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, off: float, transposed: float) -> dict[str, Any]:
    return {"off": off, "transposed": transposed}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "as written": at_most(measures["off"], context["error"]),
        "with the key first": at_most(measures["transposed"], context["error"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, named={"off": 0.0, "transposed": 0.0}),
        Trial("fails", FAILS, named={"off": 1.1, "transposed": 1.1}),
    ]


m13 = register_rule(
    "M13",
    measure,
    decide,
    effect=Effect("off", unit="off 1", null="transposed"),
    trials=trials,
)
