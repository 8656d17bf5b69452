"""K21: the first token's value vector is 19.4 times shorter."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, above, any_of
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, near
from lnattn_book.claims.verdicts import HOLDS, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, times: Interval) -> dict[str, Any]:
    return {"times": times}


def decide(measures: Measures, context: RuleContext) -> Condition:
    return any_of(above(measures["times"], context["times"]))


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (near(1, 19.4),)),
        Trial("not seen", NOT_SEEN, (near(1, 2),)),
        Trial("undecided", UNDECIDED, (near(1, 10),)),
    ]


#: What learnt nothing.
NULL = noise_around("value vectors of one length", {"times": 1.0}, joint=True)


k21 = register_rule(
    "K21",
    measure,
    decide,
    effect=Effect("times", unit="times", null=1, pick="largest"),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
