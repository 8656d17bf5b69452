"""K9: on text, head 7 follows position, head 1 attends to itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lnattn_book.claims.conditions import Condition, Truths, above
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, gpt2_heads, measured
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, table: pd.DataFrame) -> dict[str, Any]:
    """table: from `measured.compare_with_position_only`, with the skill of single texts."""

    def over_texts(mean: pd.Series, what: str) -> Interval:
        half = 1.96 * table[f"{what}, error"].fillna(np.inf)  # of one text it is not known
        return Interval(mean, mean - half, mean + half).bonferroni()

    itself = table["itself, measured"]
    predicted = table["itself, by position"]
    return {
        "skill": over_texts(table["skill, one text"], "skill"),
        "itself": over_texts(itself, "itself"),
        "above": over_texts(itself - predicted, "itself"),
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "attention follows position": context.named(
            context["follower"], above(measures["skill"], context["skill"])
        ),
        "a head looks at itself": context.named(
            context["selfish"],
            above(measures["itself"], context["itself"])
            & above(measures["above"], context["above"]),
        ),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (measured([0.9, 0.1], [0.1, 0.8], [0.1, 0.1]),)),
        Trial("in part", HOLDS_IN_PART, (measured([0.9], [0.1], [0.1]),)),
        Trial("position alone sends a head to itself", NOT_SEEN, (measured([0.2], [0.8], [0.7]),)),
        Trial("undecided", UNDECIDED, (measured([0.5], [0.1], [0.1]),)),
        Trial("holds on GPT-2", HOLDS, (gpt2_heads(7, 1),), own=True),
        Trial("fails on GPT-2", FAILS, (gpt2_heads(6, 2),), own=True),
    ]


k9 = register_rule(
    "K9",
    measure,
    decide,
    effect=Effect("skill", unit="explained by position", null=0, pick="largest"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
