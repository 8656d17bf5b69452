"""K8: attention by position is near, and hides the wave."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, at_most, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN


def measure(context: RuleContext, near_share: np.ndarray, echo: np.ndarray) -> dict[str, Any]:
    """near_share, echo: [head], or [case head] for several assumptions about σ; `wave_recurrence`.

    Where no key is a wavelength away there is no wave to hide, and the echo is 0.
    """
    hidden = Interval(*(np.where(end == 0, np.nan, end) for end in Interval.of(echo)))
    return {"share": near_share, "echo": hidden}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "near, in the heads named": context.named(
            context["named"], above(measures["share"], context["share"])
        ),
        "near, in every head": every(above(measures["share"], context["share"])),
        "no wave left, in the heads named": context.named(
            context["named"], at_most(measures["echo"], context["echo"])
        ),
        "no wave left, in every head": every(at_most(measures["echo"], context["echo"])),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(0.9, 0.6), array(0.1, 0.2))),
        Trial("in part", HOLDS_IN_PART, (array(0.9, 0.6), array(0.1, 0.8))),
        Trial("no wave, which nothing can hide", NOT_SEEN, (array(0.1, 0.2), array(0, 0))),
        Trial("fails on GPT-2", FAILS, (np.full(8, 0.1), np.zeros(8)), own=True),
    ]


k8 = register_rule(
    "K8",
    measure,
    decide,
    effect=Effect("share", unit="of the attention (median head)", exact=True),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
