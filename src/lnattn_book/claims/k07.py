"""K7: the position comparison term undulates and is high near the query."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lnattn_book.claims.conditions import Condition, Truths, above, at_least, every
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, waves
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN


def measure(context: RuleContext, table: pd.DataFrame) -> dict[str, Any]:
    """table: `lnattn.position.curves.position_table`, one row a head."""
    columns = {"cycles": "T^pp cycles", "wave": "T^pp wave share", "near": "near T^pp percentile"}
    return {name: table[column].to_numpy(dtype=float) for name, column in columns.items()}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "a wave, in the heads named": context.named(
            context["named"],
            at_least(measures["cycles"], context["cycles"])
            & above(measures["wave"], context["share"]),
        ),
        "a wave, in every head": every(
            at_least(measures["cycles"], context["cycles"])
            & above(measures["wave"], context["share"])
        ),
        "high near the query, in the heads named": context.named(
            context["named"], above(measures["near"], context["percentile"])
        ),
        "high near the query, in every head": every(above(measures["near"], context["percentile"])),
    }


def trials() -> list[Trial]:
    bend = (0.9, 0.6, 0.9)
    both = (0.9, 2.5, 0.9)
    faint = (0.3, 2.5, 0.1)
    far = (0.3, 2.5, 0.9)
    flat = (0.3, 0.6, 0.9)
    return [
        Trial("holds", HOLDS, (waves(both, both),)),
        Trial("one head near the query only far", HOLDS_IN_PART, (waves(both, far),)),
        Trial("one head without a wave", HOLDS_IN_PART, (waves(both, bend),)),
        Trial("not seen", NOT_SEEN, (waves((0.3, 0.6, 0.9), faint),)),
        Trial("in part on GPT-2", HOLDS_IN_PART, (waves(flat, both, *[flat] * 5, both),), own=True),
    ]


k7 = register_rule(
    "K7",
    measure,
    decide,
    effect=Effect("cycles", unit="cycles (median head)", exact=True),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
