"""K11: token self-assertion correlates with frequency in several heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lnattn.stats import Correlation
from lnattn_book.claims.conditions import above, any_of, at_least, at_least_n
from lnattn_book.claims.correlations import absolute_correlations
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, rho
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(
    context: RuleContext, correlations: Sequence[Correlation], tokens: int
) -> dict[str, Any]:
    """correlations: of T^e with the count, one a head; tokens: how many were counted."""
    return {"rho": absolute_correlations(correlations), "tokens": tokens}


def decide(measures: Measures, context: RuleContext) -> Decision:
    frequent = above(measures["rho"], context["rho"])
    parts = {
        "some head": any_of(frequent),
        "several heads": at_least_n(context["heads"], frequent),
    }
    return Decision(
        parts,
        needs={"the counts of a larger corpus": at_least(measures["tokens"], context["tokens"])},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, ([rho(0.6), rho(-0.7), rho(0.8), rho(0.0)], 5_000_000)),
        Trial("in part", HOLDS_IN_PART, ([rho(0.6), rho(-0.7), rho(0.4), rho(0.0)], 5_000_000)),
        Trial("not seen", NOT_SEEN, ([rho(0.3), rho(0.4)], 5_000_000)),
        Trial("too small a corpus", UNDECIDED, ([rho(0.6)] * 3, 42_000)),
    ]


k11 = register_rule(
    "K11",
    measure,
    decide,
    effect=Effect("rho", unit="|ρ| (strongest head)", null=0, pick="largest"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
