"""K4: same-token heads and others: two kinds of heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.conditions import above, below, is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, sure
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, z: Float[np.ndarray, "head 3"]) -> dict[str, Any]:
    """z: same-token z-score of each head, its mean over tokens with the ends of the interval."""
    return {"z": Interval.rows(z)}


def decide(measures: Measures, context: RuleContext) -> Decision:
    same = above(measures["z"], context["same"])
    other = below(measures["z"], context["other"])
    both = min(same.values.max(), other.values.max())
    one_kind = (same | other).values
    apart = min(both, one_kind.min())
    return Decision(
        {"a same-token head, and one without": is_true(both), "no head between": is_true(apart)},
        more={"both": both, "parted": apart, "between": int((one_kind < 1).sum())},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (sure(5, 0.5, -1),)),
        Trial("in part", HOLDS_IN_PART, (sure(5, 1.5, -1),)),
        Trial("not seen", NOT_SEEN, (sure(5, 3, 1.5),)),
        Trial("undecided", UNDECIDED, (sure(2, 0, 0),)),
        Trial("fails on GPT-2", FAILS, (sure(1.9, 0, 0),), own=True),
    ]


#: What learnt nothing.
NULL = noise_around("each token compared with another one", {"z": 0.0})

k4 = register_rule(
    "K4",
    measure,
    decide,
    effect=Effect("z", unit="standard deviations", null=0, pick="largest"),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
