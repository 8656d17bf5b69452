"""U5: unselectable keys cost less to lose than selectable ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, at
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule


def measure(
    context: RuleContext, saved: Interval, nats: np.ndarray | float, first: Interval | float
) -> dict[str, Any]:
    return {"saved": saved, "nats": nats, "first": first}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "at random": at([0], above(measures["saved"], context["saved"])),
        "by attention": at([1], above(measures["saved"], context["saved"])),
    }


u5 = register_rule(
    "U5",
    measure,
    decide,
    effect=Effect("first", unit="saved", null=0),
)
