"""M14: products with the attention matrix usually dominate attention's cost."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, above
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, share: float, tokens: int) -> dict[str, Any]:
    """share: of the operations of attention, at a context of so many tokens."""
    return {"share": share, "context": tokens}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return above(measures["share"], context["share"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.6, 4096)),
        Trial("fails", FAILS, (0.4, 1024)),
    ]


m14 = register_rule(
    "M14",
    measure,
    decide,
    effect=Effect("share", unit="of the operations", exact=True),
    trials=trials,
)
