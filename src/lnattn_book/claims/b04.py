"""B4: with projection majority is learnt in a third of the steps."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.arms import PROJECTED
from lnattn_book.claims.conditions import above, at_least, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.studies.majority.long_runs import Experiment, lag


def measure(context: RuleContext, runs: Experiment, without: str) -> dict[str, Any]:
    """without: the arm that has no projection."""
    levels = {f"{level:.0%}": {"accuracy": level} for level in context["accuracies"]}
    levels |= {f"loss {level:g}": {"loss": level} for level in context["losses"]}
    lags = {name: lag(runs, without, PROJECTED, **level) for name, level in levels.items()}
    reached = {name: ratio for name, ratio in lags.items() if ratio is not None}
    measures: dict[str, Any] = {
        "ratio": Interval.rows(list(reached.values())),
        "seeds": len(set(runs.of(without).seeds) & set(runs.of(PROJECTED).seeds)),
        "levels": len(reached),
    }
    return measures | {name: ratio.value for name, ratio in reached.items()}


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "sooner with projection": every(above(measures["ratio"], 1)),
        "in half of the steps or fewer": every(above(measures["ratio"], context["times"])),
    }
    return Decision(
        parts,
        needs={
            "more seeds": at_least(measures["seeds"], context["runs"]),
            "longer runs": at_least(measures["levels"], 1),
        },
    )


#: What learnt nothing.
NULL = noise_around("arms that learn alike", {"ratio": 1.0})

b4 = register_rule(
    "B4",
    measure,
    decide,
    effect=Effect("ratio", unit="times the epochs (least level)", null=1, n="seeds", pick="least"),
    null_model=NULL,
)
