"""K22: without biases in the linear layers there is no self-assertion."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, at_most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, left: float, of_named: float) -> dict[str, Any]:
    """Largest entry of b′^Q: left, of a model with LayerNorm whose query bias is set to 0;
    of_named, of a model without biases that has an RMSNorm, as those have which the paper names."""
    return {"left": left, "of_named": of_named}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "none in models like those named": at_most(measures["of_named"], context["left"]),
        "by the missing biases alone": at_most(measures["left"], context["left"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (0.0, 0.0)),
        Trial("LayerNorm's own bias makes one as well", HOLDS_IN_PART, (0.3, 0.0)),
        Trial("fails", FAILS, (0.3, 0.2)),
    ]


k22 = register_rule(
    "K22",
    measure,
    decide,
    effect=Effect("left", null=0),
    trials=trials,
)
