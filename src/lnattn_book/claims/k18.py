"""K18: dividing by σ makes the norms of tokens equal."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, near
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED


def measure(context: RuleContext, left: Interval, tokens: int) -> dict[str, Any]:
    return {"left": left, "tokens": tokens}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return below(measures["left"], context["left"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (near(0.05), 9)),
        Trial("fails", FAILS, (near(0.2), 9)),
        Trial("undecided", UNDECIDED, (near(0.1), 9)),
    ]


k18 = register_rule(
    "K18",
    measure,
    decide,
    effect=Effect("left", unit="of the spread is left", null=1, n="tokens"),
    trials=trials,
)
