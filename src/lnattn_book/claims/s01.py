"""S1: a piece's main predecessor is among its best keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.affinity.subwords import Subwords
from lnattn_book.claims.conditions import Condition, Truths, above, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, NotComputable, RuleContext, register_rule


def measure(context: RuleContext, subwords: Subwords) -> dict[str, Any] | NotComputable:
    """subwords: ranks of the main predecessors of pieces."""
    n = len(subwords.pieces)
    if n < context["pieces"]:
        return NotComputable(f"{n} {'piece fits' if n == 1 else 'pieces fit'} the rule")
    rank = context["rank"]
    best = subwords.table(rank).loc["best"]
    share = Interval(*(float(best[name]) for name in ("found", "low", "high")))
    chance = float(best["chance"])
    return {
        "share": share,
        "found": share.value,
        "chance": chance,
        "band": float(best["chance high"]),
        "times": Interval(*(end / chance for end in share)),
        "pieces": n,
        "head": f"{int(subwords.heads_of(rank).argmax())}",
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "more than chance": above(measures["found"], measures["band"]),
        "many times chance": at_least(measures["times"], context["times"]),
    }


def exchanged_pieces(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The share that is found among pieces which changed places."""
    chance = measures["chance"]
    error = (measures["band"] - measures["chance"]) / 1.96
    share = chance + error * generator.standard_normal()
    half = (measures["share"].high - measures["share"].low) / 2
    times = Interval(*((share + step) / chance for step in (0.0, -half, half)))
    return {"found": share, "times": times}


#: What learnt nothing.
NULL = NullModel("the pieces change places", exchanged_pieces)

s1 = register_rule(
    "S1",
    measure,
    decide,
    effect=Effect("share", unit="of the pieces", null="chance", n="pieces"),
    not_seen=True,
    null_model=NULL,
)
