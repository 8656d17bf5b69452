"""B1: LayerNorm is a projection and a scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lnattn_book.claims.conditions import Truths, at_most, is_true
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS


def measure(
    context: RuleContext, constructions: float, ranks: Mapping[int, int], apart: float
) -> dict[str, Any]:
    """constructions: difference of C and B diag(1, …, 1, 0) B⁻¹; ranks: of C by width; apart:
    largest difference from the reference LayerNorm."""
    full = all(rank == width - 1 for width, rank in ranks.items())
    return {"constructions": constructions, "apart": apart, "full": full, "widths": len(ranks)}


def decide(measures: Measures, context: RuleContext) -> Truths:
    return (
        is_true(measures["full"])
        & at_most(measures["constructions"], context["error"])
        & at_most(measures["apart"], context["error"])
    )


def trials() -> list[Trial]:
    ranks = {2: 1, 8: 7}
    return [
        Trial("holds", HOLDS, (1e-15, ranks, 1e-12)),
        Trial("fails", FAILS, (1e-5, ranks, 1e-12)),
        Trial("fails 2", FAILS, (1e-15, ranks, 1e-5)),
        Trial("fails 3", FAILS, (1e-15, {2: 1, 8: 8}, 1e-12)),
    ]


b1 = register_rule(
    "B1",
    measure,
    decide,
    effect=Effect("apart", null=0, n="widths"),
    trials=trials,
)
