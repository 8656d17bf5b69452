"""U1: in trained models nearly every key can be selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.selectability.gaussian import expected_share
from lnattn.selectability.layers import LayerVerdicts
from lnattn_book.claims.conditions import Condition, Truths, below, every, most
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Detail, Effect, Measures, RuleContext, register_rule


def measure(context: RuleContext, layers: LayerVerdicts) -> dict[str, Any]:
    """Shares of unselectable keys in every head of every layer."""
    shares = layers.by_head()
    return {
        "lost": shares.ravel(),
        "most": shares.max(),
        "share": shares.mean(),
        "keys": layers.unselectable[0].size,
        "size": Detail((layers.unselectable.shape[-1], int(layers.rank.max()))),
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    few = below(measures["lost"], context["share"])
    return {
        "most heads": most(few),
        "every head of every layer": every(few),
    }


def gaussian_keys(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """As many Gaussian keys of the width of a head, by the exact law."""
    positions, width = measures["size"].value
    return {"lost": np.full_like(measures["lost"], expected_share(positions, width))}


#: What learnt nothing.
NULL = NullModel("as many Gaussian keys of the same width", gaussian_keys, draws=1)

u1 = register_rule(
    "U1",
    measure,
    decide,
    effect=Effect("share", unit="of the keys", n="keys", exact=True),
    null_model=NULL,
)
