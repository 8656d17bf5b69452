"""K19: information gain is encoded elsewhere than in the norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lnattn.stats import Correlation
from lnattn_book.claims.conditions import Condition, above, any_of
from lnattn_book.claims.correlations import absolute_correlations
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, rho
from lnattn_book.claims.verdicts import HOLDS, NOT_SEEN


def measure(
    context: RuleContext, norm: Correlation, others: Sequence[Correlation]
) -> dict[str, Any]:
    """Correlations with information gain, of the norm and of T^e in each head."""
    return {"elsewhere": absolute_correlations(others), "norm": abs(norm.rho)}


def decide(measures: Measures, context: RuleContext) -> Condition:
    return any_of(above(measures["elsewhere"], measures["norm"]))


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (rho(-0.2), [rho(0.0), rho(-0.5)])),
        Trial("not seen", NOT_SEEN, (rho(-0.2), [rho(0.0), rho(0.1)])),
    ]


k19 = register_rule(
    "K19",
    measure,
    decide,
    effect=Effect("elsewhere", unit="|ρ| (strongest head)", null="norm", pick="largest"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
