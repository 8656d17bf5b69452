"""D1: a rotary first layer looks for the token before."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, any_of, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, skill: np.ndarray) -> dict[str, Any]:
    """skill: [head 3], mean, low, high."""
    return {"skill": Interval.rows(skill).bonferroni()}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "some head knows": any_of(above(measures["skill"], 0)),
        "some head knows much": any_of(at_least(measures["skill"], context["skill"])),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (np.array([[0.08, 0.06, 0.1], [0.09, -0.01, 0.2]]),)),
        Trial("in part", HOLDS_IN_PART, (np.array([[0.02, 0.01, 0.03]]),)),
        Trial("not seen", NOT_SEEN, (np.array([[-0.02, -0.03, -0.01]]),)),
        Trial(
            "above 0 alone, but not as the best of four",
            UNDECIDED,
            (np.array([[0.02, 0.001, 0.03], *[[0, -0.01, 0.01]] * 3]),),
        ),
    ]


#: What learnt nothing.
NULL = noise_around("the same heads, asked with wrong queries", {"skill": 0.0}, joint=True)

d1 = register_rule(
    "D1",
    measure,
    decide,
    effect=Effect("skill", unit="AUROC (best head)", null=0, pick="largest"),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
