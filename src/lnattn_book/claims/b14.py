"""B14: LayerNorm is crucial to the expressivity of the attention after it."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, above, equal
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, uneven: float, bare: float, scaled: float) -> dict[str, Any]:
    return {"uneven": uneven, "bare": bare, "scaled": scaled}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "even attention needs the projection": above(measures["uneven"], context["error"]),
        "selecting any key needs the scaling": above(measures["bare"], 0)
        & equal(measures["scaled"], 0),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.1, 0.7, 0.0)),
        Trial("in part", HOLDS_IN_PART, (0.0, 0.7, 0.0)),
        Trial("fails", FAILS, (0.0, 0.7, 0.1)),
    ]


b14 = register_rule(
    "B14",
    measure,
    decide,
    effect=Effect("bare", unit="of the keys", null="scaled"),
    trials=trials,
)
