"""K20: the sink at the first token fades as contexts grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.conditions import Condition, Truths, any_of, below, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, fading
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(
    context: RuleContext, attention: Float[np.ndarray, "text head query"]
) -> dict[str, Any]:
    """attention: on position 0 of queries 1, 2, …; how it fades from the first quarter of them to
    the last, beyond what even attention, 1 over the number of keys, does."""
    even = attention * (np.arange(attention.shape[-1]) + 2)
    quarter = max(attention.shape[-1] // 4, 1)
    ends = even[..., -quarter:].sum(axis=-1), even[..., :quarter].sum(axis=-1)
    return {"left": Interval.bootstrap_ratio(*ends).bonferroni()}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    faded = below(measures["left"], context["left"])
    return {
        "some head": any_of(faded),
        "every head": every(faded),
    }


def trials() -> list[Trial]:
    fades = np.exp(-np.arange(40) / 5)
    level = 1 / np.arange(2.0, 42)
    return [
        Trial("holds", HOLDS, (fading(fades, fades),)),
        Trial(
            "one head takes half of all throughout",
            HOLDS_IN_PART,
            (fading(fades, np.full(40, 0.5)),),
        ),
        Trial("even attention", NOT_SEEN, (fading(level),)),
        Trial("noise", UNDECIDED, (fading(level * np.linspace(1, 0.4, 40), noise=0.3),)),
    ]


k20 = register_rule(
    "K20",
    measure,
    decide,
    effect=Effect("left", unit="is left (least head)", null=1, pick="least"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
