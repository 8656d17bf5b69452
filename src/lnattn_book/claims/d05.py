"""D5: rotary positions leave more to words in the first layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import above, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED
from lnattn_book.studies.language_models import mean_and_interval


def measure(context: RuleContext, rotary: np.ndarray, learned: np.ndarray) -> dict[str, Any]:
    """rotary, learned: skill of the best head of two models alike but for positions, [seed]."""
    return {
        "more": Interval(*mean_and_interval(rotary - learned, context["level"])),
        "pairs": len(rotary),
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {"": above(measures["more"], 0)}
    return Decision(parts, needs={"more pairs": at_least(measures["pairs"], context["pairs"])})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(2, 3, 4), array(1, 2, 3.1))),
        Trial("fails", FAILS, (array(1, 2, 3.1), array(2, 3, 4))),
        Trial("noise", UNDECIDED, (array(0, 1, 2), array(1, 1, 1))),
        Trial("two pairs", UNDECIDED, (array(2, 2.1), array(1, 1))),
    ]


#: What learnt nothing.
NULL = noise_around("twins that know alike", {"more": 0.0})

d5 = register_rule(
    "D5",
    measure,
    decide,
    effect=Effect("more", unit="AUROC", null=0, n="pairs"),
    null_model=NULL,
    trials=trials,
)
