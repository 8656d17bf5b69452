"""K15: a switch at the first token makes an attention sink."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, any_of, below, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array, near
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(
    context: RuleContext, score: np.ndarray, amplification: Interval | np.ndarray
) -> dict[str, Any]:
    """score: b_QK p_0ᵀ, [head]; amplification: [head], exact or with its interval over texts."""
    return {"score": score, "amplification": amplification}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    switch = below(measures["score"], 0) & above(measures["amplification"], context["gain"])
    return {
        "some head": any_of(switch),
        "every head": every(switch),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(-3, -2), near(2, 1.2))),
        Trial("in part", HOLDS_IN_PART, (array(-3, -2), near(2, 1.05))),
        Trial("amplified, but by a positive score", NOT_SEEN, (array(3, -2), near(2, 1))),
        Trial("undecided", UNDECIDED, (array(-3, -2), near(1.1, 1))),
    ]


k15 = register_rule(
    "K15",
    measure,
    decide,
    effect=Effect("amplification", unit="times (largest head)", null=1, pick="largest"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
