"""K6: position self-assertion rises with the key's position: at each step, and in trend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above, at_least, every
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

#: Measures of its first three parts: the share of rising steps up to each of the paper's queries.
UNTIL = ("rising to i = 50", "rising to i = 500", "rising to i = 1000")


def measure(
    context: RuleContext, spearman: np.ndarray, rising: Sequence[np.ndarray]
) -> dict[str, Any]:
    """rising: of steps up to the paper's i = 50, 500 and 1000, or the same share of a context."""
    return {"spearman": spearman, **dict(zip(UNTIL, rising, strict=True))}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    monotone = {
        f"{until}, in the heads named": context.named(
            context["named"], at_least(measures[until], context["rising"])
        )
        for until in UNTIL
    }
    rising = above(measures["spearman"], context["spearman"])
    return {
        **monotone,
        "in trend, in the heads named": context.named(context["named"], rising),
        "in trend, in every head": every(rising),
    }


def curve(*heads: tuple[float, float]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of each head ρ and the share of rising steps, the same up to each place."""
    spearman, rising = np.array(heads).T
    return spearman, [rising] * len(UNTIL)


def trials() -> list[Trial]:
    steady, bent, falling, flat = (0.99, 1.0), (0.95, 0.7), (-0.99, 0.0), (0.1, 0.5)
    unsure = np.array([[0.95, 0.99], [0.95, 0.5]]), [np.ones((2, 2))] * len(UNTIL)
    return [
        Trial("holds", HOLDS, curve(steady, steady)),
        Trial("one head falls", HOLDS_IN_PART, curve(steady, falling)),
        Trial("in trend alone", HOLDS_IN_PART, curve(bent, bent)),
        Trial("not seen", NOT_SEEN, curve(flat, flat)),
        Trial("undecided", UNDECIDED, unsure),
        Trial("fails on GPT-2", FAILS, curve(*[flat] * 8), own=True),
        Trial("in trend on GPT-2", HOLDS_IN_PART, curve(flat, bent, *[flat] * 5, bent), own=True),
    ]


k6 = register_rule(
    "K6",
    measure,
    decide,
    effect=Effect("spearman", unit="ρ (median head)", null=0, exact=True),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
