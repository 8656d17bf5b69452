"""M6: pre- and post-LayerNorm layers are as written."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Truths, at_most
from lnattn_book.claims.rules import Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, pre: float, post: float, both: float) -> dict[str, Any]:
    return {"pre": pre, "post": post, "both": both}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return (
        at_most(measures["pre"], context["error"])
        & at_most(measures["post"], context["error"])
        & at_most(measures["both"], context["error"])
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (1e-9, 1e-9, 1e-9)),
        Trial("fails", FAILS, (1e-9, 1e-9, 1e-2)),
    ]


m6 = register_rule(
    "M6",
    measure,
    decide,
    trials=trials,
)
