"""D3: distance alone favours near keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, any_of, at_least, every
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED


def measure(context: RuleContext, share: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """share, null: [head], of attention by distance alone on the nearest keys."""
    even = context["near"] / context["context"]
    return {"times_even": share / even, "null": null / even, "usual": np.median(null) / even}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    near = at_least(measures["times_even"], context["times"])
    return {"some head": any_of(near), "every head": every(near)}


def trials() -> list[Trial]:
    even = 10 / 256
    return [
        Trial("holds", HOLDS, (array(2.1, 3) * even, array(1, 1) * even)),
        Trial("fails", FAILS, (array(1.9, 1) * even, array(3, 3) * even)),
        Trial(
            "heads that learnt nothing do, too",
            UNDECIDED,
            (array(2.1, 3) * even, array(2, 3) * even),
        ),
    ]


def in_random_order(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The same model with its heads in random order, which was measured beside it."""
    return {"times_even": measures["null"]}


#: What learnt nothing.
NULL = NullModel("the same model, heads in random order", in_random_order, draws=1)

d3 = register_rule(
    "D3",
    measure,
    decide,
    effect=Effect(
        "times_even", unit="times the even share (median head)", null="usual", exact=True
    ),
    null_model=NULL,
    trials=trials,
)
