"""M8: Pre-LN keeps gradients even through many layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, below
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, pre: float, post: float, seeds: int) -> dict[str, Any]:
    return {"pre": pre, "post": post, "seeds": seeds}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "even with pre-LN, and more so than with post-LN": below(measures["pre"], context["even"])
        & below(measures["pre"], measures["post"]),
        "uneven with post-LN only": below(measures["pre"], context["even"])
        & above(measures["post"], context["even"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (2.0, 50.0, 5)),
        Trial("in part", HOLDS_IN_PART, (2.0, 5.0, 5)),
        Trial("fails", FAILS, (5.0, 2.0, 5)),
        Trial("fails 2", FAILS, (20.0, 50.0, 5)),
    ]


def exchanged(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Each order in the other's place."""
    return {"pre": measures["post"], "post": measures["pre"]}


#: What learnt nothing.
NULL = NullModel("the two orders exchanged", exchanged, draws=1)

m8 = register_rule(
    "M8",
    measure,
    decide,
    effect=Effect("pre", unit="times", null="post", n="seeds"),
    null_model=NULL,
    trials=trials,
)
