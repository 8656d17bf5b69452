"""K20: the sink at the first token fades as contexts grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.conditions import (
    Condition,
    Truths,
    above,
    any_of,
    below,
    every,
    is_true,
)
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, fading
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(
    context: RuleContext, attention: Float[np.ndarray, "text head query"]
) -> dict[str, Any]:
    """attention: on position 0 of queries 1, 2, …, over even attention, 1 over the number of keys:
    its mean over the first quarter of the queries, and how much of that is left in the last."""
    even = attention * (np.arange(attention.shape[-1]) + 2)
    quarter = max(attention.shape[-1] // 4, 1)
    last = even[..., -quarter:].sum(axis=-1)
    first = even[..., :quarter].sum(axis=-1)
    return {
        "short": Interval.bootstrap_ratio(first, np.full_like(first, quarter)).bonferroni(),
        "left": Interval.bootstrap_ratio(last, first).bonferroni(),
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    sink = above(measures["short"], context["sink"])
    faded = below(measures["left"], context["left"])
    # Of heads without a sink nothing is asked; one that may have none fails for no certain reason.
    of_sinks = np.where(sink.values == 0, np.nan, np.maximum(faded.values, 1 - sink.values))
    return {
        "some head with a sink": any_of(sink & faded),
        "every head with a sink": every(is_true(of_sinks)),
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
        Trial("a head that looks near has no sink to lose", HOLDS, (fading(fades, fades / 10),)),
        Trial("below even attention", NOT_SEEN, (fading(0.8 * level),)),
        Trial("a sink that stays", NOT_SEEN, (fading(2 * level),)),
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
