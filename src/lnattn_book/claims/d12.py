"""D12: the waves of the position comparison term turn about twice in a context."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.conditions import Condition, above, below, most
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import HOLDS, NOT_SEEN


def measure(context: RuleContext, turns: Float[np.ndarray, "head"]) -> dict[str, Any]:
    """turns: how often each head's strongest wave fits into the context."""
    about_two = (turns > context["low"]) & (turns < context["high"])
    return {"turns": turns, "heads": float(about_two.mean())}


def decide(measures: Measures, context: RuleContext) -> Condition:
    turns = measures["turns"]
    return most(above(turns, context["low"]) & below(turns, context["high"]))


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (np.array([1.9, 2.1, 2.2, 7.0]),)),
        Trial("not seen", NOT_SEEN, (np.array([1.0, 1.1, 2.0, 5.0]),)),
    ]


#: What learnt nothing of waves.
NULL = NullModel("the same heads with random positions, as large in each direction and as smooth")

d12 = register_rule(
    "D12",
    measure,
    decide,
    effect=Effect("turns", unit="turns (median head)", exact=True),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
