"""S11: a first layer that joins pieces is used for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel, around
from lnattn_book.claims.rules import (
    Decision,
    Detail,
    Effect,
    Measures,
    NotComputable,
    RuleContext,
    register_rule,
)
from lnattn_book.studies.joining_runs import Joining
from lnattn_book.studies.language_models import mean_and_interval


def measure(context: RuleContext, joining: Joining) -> dict[str, Any] | NotComputable:
    """Losses of models that join pieces, at the snapshots where they do most."""
    seeds = len(joining.peaks())
    shares = joining.shares()
    if seeds < context["seeds"]:
        most = shares.loc[shares["tokens trained"].idxmax()]
        return NotComputable(
            f"{seeds} of {shares.index.unique('seed').size} models join pieces; after "
            f"{most['tokens trained'] / 1e6:.1f} million tokens {most['found']:.1%} are found, "
            f"by chance up to {most['chance high']:.1%}"
        )
    every_head = joining.of("after", "ee")
    joining_head = joining.of("after", "ee", "joining")
    whole = Interval(*mean_and_interval(every_head["value"].to_numpy(), context["level"]))
    return {
        "whole": whole,
        "alone": joining_head["value"].to_numpy(),
        "alone_low": Detail(joining_head["low"].to_numpy()),
        "seeds": seeds,
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    whole = measures["whole"]
    lost = 1.0 if whole.low > 0 else 0.0 if whole.high < context["nats"] else 0.5
    in_every_seed = bool((measures["alone_low"].value > 0).all())
    much = whole.value >= context["nats"] and in_every_seed
    in_head = float(much) if lost == 1 else lost
    return Decision(
        {
            "without all heads' pairs more is lost": is_true(lost),
            "much, and in the head that joins most": is_true(in_head),
        },
        more={"lost": lost, "much": in_head},
    )


def no_loss(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Losses that are noise, after second pieces as after matched tokens."""
    lows = measures["alone_low"].value
    return {
        "whole": around(measures["whole"], 0.0, generator),
        "alone_low": Detail(generator.standard_normal(len(lows))),
    }


#: What learnt nothing.
NULL = NullModel("as much lost after matched tokens", no_loss)

s11 = register_rule(
    "S11",
    measure,
    decide,
    effect=Effect("whole", unit="nats", null=0, n="seeds"),
    null_model=NULL,
)
