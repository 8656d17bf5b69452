"""U1: in trained models nearly every key can be selected."""

from __future__ import annotations

from typing import Any

from lnattn.selectability.layers import LayerVerdicts
from lnattn_book.claims.conditions import Condition, Truths, below, every, most
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule


def measure(context: RuleContext, found: LayerVerdicts) -> dict[str, Any]:
    """Shares of unselectable keys in every head of every layer."""
    shares = found.by_head()
    keys = found.unselectable[0].size
    return {"lost": shares.ravel(), "most": shares.max(), "share": shares.mean(), "keys": keys}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    few = below(measures["lost"], context["share"])
    return {
        "most heads": most(few),
        "every head of every layer": every(few),
    }


u1 = register_rule(
    "U1",
    measure,
    decide,
    effect=Effect("share", unit="of the keys", n="keys", exact=True),
)
