"""K12: rare tokens have larger variance; covariances are small."""

from __future__ import annotations

from typing import Any

from lnattn.stats import Correlation
from lnattn_book.claims.conditions import above, at_least, below
from lnattn_book.claims.nulls import EMBEDDINGS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, rho
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED


def measure(
    context: RuleContext, correlation: Correlation, ratio: float, tokens: int
) -> dict[str, Any]:
    """ratio: mean Var(e) over mean |Cov(e, p)|; tokens: how many were counted."""
    return {"rho": correlation, "ratio": ratio, "tokens": tokens, "n": correlation.n}


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "rare tokens vary more": below(measures["rho"], context["rho"]),
        "covariances are small": above(measures["ratio"], context["ratio"]),
    }
    return Decision(
        parts,
        needs={"the counts of a larger corpus": at_least(measures["tokens"], context["tokens"])},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (rho(-0.5), 46.0, 5_000_000)),
        Trial("in part", HOLDS_IN_PART, (rho(-0.5), 7.0, 5_000_000)),
        Trial("far from 0 by its interval alone", FAILS, (rho(-0.05), 7.0, 5_000_000)),
        Trial("too small a corpus", UNDECIDED, (rho(-0.5), 46.0, 42_000)),
    ]


k12 = register_rule(
    "K12",
    measure,
    decide,
    effect=Effect("rho", unit="ρ", null=0, n="n"),
    null_model=EMBEDDINGS_IN_RANDOM_ORDER,
    trials=trials,
)
