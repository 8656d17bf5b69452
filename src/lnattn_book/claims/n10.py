"""N10: trained weights avoid the direction that the norm removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lnattn_book.claims.conditions import above, at_least, below
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.seeds import geometric
from lnattn_book.claims.trials import Trial, arms
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED

#: What trained the arms.
OPTIMISERS = ("SGD", "Adam", "AdamW")


def measure(
    context: RuleContext, along_n: Mapping[str, np.ndarray], along_1: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """By optimiser: A along n and along 1 [seed], a geometric mean over matrices."""
    measures: dict[str, Any] = {"seeds": min(map(len, along_n.values()))}
    for name, values in along_n.items():
        measures[f"{name}_n"] = geometric(values)
        measures[f"{name}_1"] = geometric(along_1[name])
    return measures | {"first": geometric(next(iter(along_n.values())))}


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {}
    for name in OPTIMISERS:
        removed = measures[f"{name}_n"]
        ones = measures[f"{name}_1"]
        near_chance = above(ones, 1 / context["factor"]) & below(ones, context["factor"])
        parts[f"with {name}"] = below(removed, context["avoided"]) & near_chance
    return Decision(parts, needs={"more seeds": at_least(measures["seeds"], context["runs"])})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, arms((0.1, 0.3), (1, 1))),
        Trial("in part", HOLDS_IN_PART, arms((0.1, 0.6), (1, 1))),
        Trial("1 is avoided whatever the norm removes", FAILS, arms((0.1, 0.3), (0.1, 0.3))),
        Trial("four seeds", UNDECIDED, arms((0.1, 0.3), (1, 1), seeds=4)),
    ]


#: What learnt nothing.
NULL = noise_around(
    "weights that avoid nothing",
    {f"{name}_{along}": 1.0 for name in OPTIMISERS for along in "n1"},
)

n10 = register_rule(
    "N10",
    measure,
    decide,
    effect=Effect("first", unit="A along n", null=1, n="seeds"),
    null_model=NULL,
    trials=trials,
)
