"""N8: with RMSNorm matrices write along 1 as chance has it."""

from __future__ import annotations

from lnattn_book.claims.conditions import Condition, Truths, at_most
from lnattn_book.claims.n07 import measure as measure_n7
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, written
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "of the size of chance": at_most(measures["times"], context["factor"]),
        "few below chance": at_most(measures["share"], context["share"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (written(0.7, *[1.1] * 9),)),
        Trial("in part", HOLDS_IN_PART, (written(0.7, 0.7, *[1.1] * 8),)),
        Trial("in part 2", HOLDS_IN_PART, (written(1.6, 1.7),)),
        Trial("fails", FAILS, (written(0.1, 0.2),)),
    ]


#: What learnt nothing.
NULL = noise_around("a model that avoids 1, as those do that centre", {"times": 7.0, "share": 1.0})

n8 = register_rule(
    "N8",
    measure_n7,
    decide,
    effect=Effect("mean", unit="A (geometric mean)", null=1, n="matrices", exact=True),
    null_model=NULL,
    trials=trials,
)
