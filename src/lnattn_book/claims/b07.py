"""B7: many random keys are unselectable if n is large, d small."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, grid_of_keys
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.random_keys import RandomGrid


def measure(context: RuleContext, grid: RandomGrid) -> dict[str, Any]:
    """grid: of keys without LayerNorm."""
    share = grid.fraction
    return {
        "rises": (np.diff(share, axis=0) >= -context["noise"]).mean(),
        "falls": (np.diff(share, axis=1) <= context["noise"]).mean(),
        "corner": Interval(*mean_and_interval(grid.unselectable[-1, 0] / grid.counts[-1])),
        "far": share[-1, -1],
        "draws": grid.unselectable.shape[2],
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "more with more keys": at_least(measures["rises"], context["cells"]),
        "fewer with more dimensions": at_least(measures["falls"], context["cells"]),
        "many in the corner": above(measures["corner"], context["many"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (grid_of_keys([[0.2, 0], [0.4, 0], [0.7, 0.1]]),)),
        Trial("in part", HOLDS_IN_PART, (grid_of_keys([[0.2, 0], [0.3, 0], [0.4, 0.1]]),)),
        Trial("fewer keys with more", FAILS, (grid_of_keys([[0.2, 0.3], [0.1, 0.3], [0, 0.1]]),)),
    ]


b7 = register_rule(
    "B7",
    measure,
    decide,
    effect=Effect("corner", unit="of the keys", null="far", n="draws"),
    trials=trials,
)
