"""K13: position variances: first high, last low, a step between."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, above, below
from lnattn_book.claims.nulls import EMBEDDINGS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN


def measure(context: RuleContext, first: float, last: float, spread: float) -> dict[str, Any]:
    return {"first": first, "last": last, "spread": spread}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "the first is exceptionally high": above(measures["first"], context["z"]),
        "the last is exceptionally low": below(measures["last"], -context["z"]),
        "level between them": below(measures["spread"], context["spread"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (50.0, -40.0, 0.05)),
        Trial("in part", HOLDS_IN_PART, (50.0, 0.0, 0.7)),
        Trial("not seen", NOT_SEEN, (5.0, 0.0, 0.7)),
    ]


k13 = register_rule(
    "K13",
    measure,
    decide,
    effect=Effect("first", unit="robust z of the first position", null=0, exact=True),
    not_seen=True,
    null_model=EMBEDDINGS_IN_RANDOM_ORDER,
    trials=trials,
)
