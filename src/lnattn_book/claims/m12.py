"""M12: queries and keys are contracted over the sequence."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, over_seq: float, over_feat: float) -> dict[str, Any]:
    return {"over_seq": over_seq, "over_feat": over_feat}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return at_most(measures["over_seq"], context["moved"])


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.0, 0.0)),
        Trial("fails", FAILS, (0.5, 0.0)),
    ]


m12 = register_rule(
    "M12",
    measure,
    decide,
    effect=Effect("over_seq", null="over_feat"),
    trials=trials,
)
