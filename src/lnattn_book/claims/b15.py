"""B15: wider models depend less on the projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lnattn_book.claims.conditions import Condition, Truths, above, at_least, below, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, UNDECIDED
from lnattn_book.studies.majority.long_runs import Estimate


def measure(
    context: RuleContext, ratios: Mapping[int, Estimate | float], seeds: int
) -> dict[str, Any]:
    """ratios: epochs without the projection over those with it, by width, at equal norm."""
    by_width = [Interval.of(ratios[width]) for width in sorted(ratios)]
    narrow, *wide = by_width
    return {"narrow": narrow, "wide": Interval.rows(wide), "widths": len(ratios), "seeds": seeds}


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts: dict[str, Condition | Truths] = {
        "at the paper's width it helps": above(measures["narrow"], context["times"]),
        "at larger widths it does not help": every(below(measures["wide"], context["times"])),
    }
    return Decision(
        parts,
        needs={
            "more widths": at_least(measures["widths"], context["widths"]),
            "more seeds": at_least(measures["seeds"], context["runs"]),
        },
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, ({8: 2.0, 16: 1.1, 32: 0.9}, 5)),
        Trial("no help at any width", UNDECIDED, ({8: 0.5, 16: 1.1, 32: 0.9}, 5)),
        Trial("fails", FAILS, ({8: 1.1, 16: 2.0, 32: 0.9}, 5)),
        Trial("undecided", UNDECIDED, ({8: 2.0, 16: 1.1}, 5)),
    ]


#: What learnt nothing.
NULL = noise_around("arms that learn alike", {"narrow": 1.0, "wide": 1.0})

b15 = register_rule(
    "B15",
    measure,
    decide,
    effect=Effect("narrow", unit="times at the smallest width", null=1, n="seeds"),
    null_model=NULL,
    trials=trials,
)
