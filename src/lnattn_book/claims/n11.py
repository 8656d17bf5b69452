"""N11: Adam writes along 1 where its gradient has nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import at_least, at_most, is_true
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.seeds import bootstrapped
from lnattn_book.claims.trials import Trial, first_steps
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED

#: What chance has of the energy of Adam's first step along a direction that its gradient lacks.
FIRST_STEP = 1 - 2 / np.pi


def measure(context: RuleContext, first: np.ndarray) -> dict[str, Any]:
    """first: A of Adam's first step, [seed]."""
    return {"step": bootstrapped(first), "seeds": len(first)}


def decide(measures: Measures, context: RuleContext) -> Decision:
    step = measures["step"]
    between = bool(step.low > 0 and step.high < 1)
    off = abs(step.value - FIRST_STEP)
    return Decision(
        {
            "between nothing and chance": is_true(between),
            "as predicted": at_most(off, context["within"]),
        },
        needs={"more seeds": at_least(measures["seeds"], context["runs"])},
        more={"between": between, "off": off},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, first_steps(0.36)),
        Trial("in part", HOLDS_IN_PART, first_steps(0.6)),
        Trial("49 seeds", UNDECIDED, first_steps(0.36, n=49)),
        Trial("nothing", FAILS, first_steps(0.0)),
        Trial("as much as chance", FAILS, first_steps(1)),
    ]


#: What learnt nothing.
NULL = noise_around("a first step like any direction", {"step": 1.0})

n11 = register_rule(
    "N11",
    measure,
    decide,
    effect=Effect("step", unit="of chance", null=1, n="seeds"),
    null_model=NULL,
    trials=trials,
)
