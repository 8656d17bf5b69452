"""S14: what a token brings alone is most of what reaches a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, any_of, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART
from lnattn_book.studies.layers_above import LayersAbove


def measure(context: RuleContext, tables: LayersAbove) -> dict[str, Any]:
    """Shares of the variance in text, layer by layer above the first, over windows."""
    return measure_of(tables.far, tables.spread)


def measure_of(far: np.ndarray, spread: np.ndarray) -> dict[str, Any]:
    """far, spread: [window layer]."""
    left = Interval.bootstrap_ratio(far[:, 1:], spread[:, 1:])
    share = Interval(1 - left.value, 1 - left.high, 1 - left.low).bonferroni()
    return {"share": share, "windows": len(far)}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    most = above(measures["share"], context["share"])
    return {"in some layer": any_of(most), "in every layer": every(most)}


def made_up(*shares: float) -> LayersAbove:
    """Tables of layers in which lone tokens say these shares of the variance."""
    windows = np.random.default_rng(0).uniform(0.99, 1.01, size=(16, 1))
    spread = windows * np.ones(len(shares))
    far = (1 - np.array(shares)) * spread
    is_found = np.ones((2, len(shares), 10), dtype=bool)
    chance = np.ones((2, len(shares), 3))
    return LayersAbove(is_found, chance, chance, far, spread, spread, {})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (made_up(1.0, 0.9, 0.7),)),
        Trial("in one layer", HOLDS_IN_PART, (made_up(1.0, 0.7, 0.3),)),
        Trial("in none", FAILS, (made_up(1.0, 0.3, -0.2),)),
    ]


#: What learnt nothing of the token.
NULL = NullModel("the lone vector of another token of the same text, at the same position")

s14 = register_rule(
    "S14",
    measure,
    decide,
    effect=Effect("share", unit="of the variance (least layer)", null=0, n="windows", pick="least"),
    null_model=NULL,
    trials=trials,
)
