"""R7: a residual network is an ensemble of shallow ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Truths, above
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, paths
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED


def measure(
    context: RuleContext, one: np.ndarray, two: np.ndarray, tokens: np.ndarray
) -> dict[str, Any]:
    """one, two: [document], how much the sum of losses rises without the paths through one head,
    without those through two; tokens: [document], how many losses were summed."""
    more = Interval.bootstrap_ratio(one - two, tokens, context["draws"])
    rises = {"one": one.sum() / tokens.sum(), "two": two.sum() / tokens.sum()}
    return {"more": more, **rises, "documents": len(one)}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return above(measures["more"], 0)


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, paths(2.0, 0.5)),
        Trial("fails", FAILS, paths(0.5, 2.0)),
        Trial("undecided", UNDECIDED, paths(1.0, 1.0)),
        Trial("holds 2", HOLDS, paths(0.5, 0.0)),
    ]


#: What learnt nothing.
NULL = noise_around("paths that cost alike", {"more": 0.0})

r7 = register_rule(
    "R7",
    measure,
    decide,
    effect=Effect("more", unit="nats a token", null=0, n="documents"),
    null_model=NULL,
    trials=trials,
)
