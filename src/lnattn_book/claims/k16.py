"""K16: same-token heads detokenize less."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.stats import spearman
from lnattn_book.claims.conditions import at_least, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED


def measure(context: RuleContext, z: np.ndarray, skill: np.ndarray) -> dict[str, Any]:
    """z: mean same-token z-score; skill: as for K5; both [head]."""
    rho = spearman(z, skill) if len(z) > 3 else Interval(np.nan, -1.0, 1.0)
    return {"rho": rho, "heads": len(z)}


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {"": below(measures["rho"], 0)}
    return Decision(parts, needs={"a model with more heads": at_least(measures["heads"], 4)})


def trials() -> list[Trial]:
    noise = np.random.default_rng(0).permutation(12.0 * np.arange(12))
    z = np.arange(12.0)
    return [
        Trial("holds", HOLDS, (z, -z + 0.01 * noise)),
        Trial("fails", FAILS, (z, z + 0.01 * noise)),
        Trial("noise", UNDECIDED, (z, noise)),
        Trial("three heads", UNDECIDED, (z[:3], -z[:3])),
    ]


#: What learnt nothing.
NULL = noise_around("heads in which the two have nothing to do with each other", {"rho": 0.0})


k16 = register_rule(
    "K16",
    measure,
    decide,
    effect=Effect("rho", unit="ρ", null=0, n="heads"),
    null_model=NULL,
    trials=trials,
)
