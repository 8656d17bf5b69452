"""D3: distance alone favours near keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import any_of, at_least, every
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED


def measure(context: RuleContext, share: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """share, null: [head], of attention by distance alone on the nearest keys."""
    even = context["near"] / context["context"]
    return {"times_even": share / even, "null": null / even, "usual": np.median(null) / even}


def decide(measures: Measures, context: RuleContext) -> Decision:
    near = at_least(measures["times_even"], context["times"])
    return Decision(
        {"some head": any_of(near), "every head": every(near)},
        null=any_of(at_least(measures["null"], context["times"])),
    )


def trials() -> list[Trial]:
    even = 10 / 256
    return [
        Trial("holds", HOLDS, (array(2.1, 3) * even, array(1, 1) * even)),
        Trial("fails", FAILS, (array(1.9, 1) * even, array(3, 3) * even)),
        Trial(
            "heads that learnt nothing do, too",
            UNDECIDED,
            (array(2.1, 3) * even, array(1, 3) * even),
        ),
    ]


d3 = register_rule(
    "D3",
    measure,
    decide,
    effect=Effect(
        "times_even", unit="times the even share (median head)", null="usual", exact=True
    ),
    trials=trials,
)
