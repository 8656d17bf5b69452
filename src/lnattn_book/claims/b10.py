"""B10: with scaling the language model's loss is lower."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import above, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED
from lnattn_book.studies.language_models import mean_and_interval


def measure(
    context: RuleContext, held_out: np.ndarray, training: np.ndarray, tokens: float, rates: int
) -> dict[str, Any]:
    """held_out, training: [pair 2], with scaling and without, in nats a token; tokens: seen, as a
    share of the paper's; rates: learning rates tried for each arm."""
    return {
        "held_out": Interval(*mean_and_interval(held_out[:, 1] - held_out[:, 0])),
        "training": Interval(*mean_and_interval(training[:, 1] - training[:, 0])),
        "tokens": tokens,
        "rates": rates,
        "pairs": len(held_out),
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "held out": above(measures["held_out"], 0),
        "in training": above(measures["training"], 0),
    }
    return Decision(
        parts,
        needs={
            "more tokens": at_least(measures["tokens"], context["tokens"]),
            "more learning rates": at_least(measures["rates"], context["rates"]),
            "more pairs": at_least(measures["pairs"], context["pairs"]),
        },
    )


def trials() -> list[Trial]:
    better = np.array([[6.0, 6.5], [6.1, 6.58], [6.0, 6.49]])
    mixed = np.array([[6.0, 6.5], [6.1, 6.4], [6.0, 6.1]])
    worse = better[:, ::-1]
    return [
        Trial("holds", HOLDS, (better, better, 0.5, 5)),
        Trial("lower in each pair, by chance as like as not", UNDECIDED, (better, mixed, 0.5, 5)),
        Trial("fails", FAILS, (worse, worse, 0.5, 5)),
        Trial("in part", HOLDS_IN_PART, (better, worse, 0.5, 5)),
        Trial("too few tokens", UNDECIDED, (better, better, 0.003, 5)),
    ]


#: What learnt nothing.
NULL = noise_around("arms that learn alike", {"held_out": 0.0, "training": 0.0})

b10 = register_rule(
    "B10",
    measure,
    decide,
    effect=Effect("held_out", unit="nats a token", null=0, n="pairs"),
    null_model=NULL,
    trials=trials,
)
