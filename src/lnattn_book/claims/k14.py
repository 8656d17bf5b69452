"""K14: the very last position was not trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, any_of, below, every
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN


def measure(context: RuleContext, ratio: np.ndarray) -> dict[str, Any]:
    return {"ratio": ratio}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    flat = below(measures["ratio"], context["spread"])
    return {
        "some head": any_of(flat),
        "every head": every(flat),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(0.01, 0.09),)),
        Trial("in part", HOLDS_IN_PART, (array(0.01, 0.5),)),
        Trial("not seen", NOT_SEEN, (array(0.4, 0.5),)),
    ]


k14 = register_rule(
    "K14",
    measure,
    decide,
    effect=Effect("ratio", unit="of the neighbours' spread (median head)", null=1, exact=True),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
