"""K6: position self-assertion rises with the key's position."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, every
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, spearman: np.ndarray) -> dict[str, Any]:
    return {"spearman": spearman}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    rising = above(measures["spearman"], context["spearman"])
    return {
        "the heads named": context.named(context["named"], rising),
        "every head": every(rising),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(0.95, 0.99),)),
        Trial("in part", HOLDS_IN_PART, (array(0.95, -0.99),)),
        Trial("not seen", NOT_SEEN, (array(0.1, 0.2),)),
        Trial("undecided", UNDECIDED, (np.array([[0.95, 0.99], [0.95, 0.5]]),)),
        Trial("fails on GPT-2", FAILS, (np.full(8, 0.1),), own=True),
        Trial("in part on GPT-2", HOLDS_IN_PART, (array(0.5, 0.95, *[0.5] * 5, 0.95),), own=True),
    ]


k6 = register_rule(
    "K6",
    measure,
    decide,
    effect=Effect("spearman", unit="ρ (median head)", null=0, exact=True),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
