"""B12: numbers of parameters: 584, 414K and 446K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, at, equal
from lnattn_book.claims.rules import Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(context: RuleContext, counts: Sequence[int]) -> dict[str, Any]:
    """Numbers of parameters, of the models in the order in which the claim has them."""
    named = zip(counts, context["unit"], context["reported"], strict=True)
    off = np.array([round(count / unit) - reported for count, unit, reported in named])
    return {"off": off, "counts": ", ".join(f"{count:,}" for count in counts)}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "majority": at([0], equal(measures["off"], 0)),
        "language model": at([1], equal(measures["off"], 0)),
        "sentiment": at([2], equal(measures["off"], 0)),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, ([584, 413_752, 446_250],)),
        Trial("fails", FAILS, ([585, 413_499, 458_458],)),
    ]


b12 = register_rule(
    "B12",
    measure,
    decide,
    trials=trials,
)
