"""B5: queries turn towards 1 with projection only."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.arms import PROJECTED, of_arms
from lnattn_book.claims.conditions import above, at_least, below
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.studies.majority.long_runs import Experiment


def measure(context: RuleContext, runs: Experiment, without: str) -> dict[str, Any]:
    """How far the mean angle falls. without: the arm that has no projection."""
    angles = [runs.of(arm).angle for arm in (PROJECTED, without)]
    return of_arms(*(angle[:, 0] - angle[:, -1] for angle in angles))


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "it falls with projection": above(measures["with"], context["turn"]),
        "it does not without": below(measures["without"], context["turn"]),
    }
    return Decision(
        parts, needs={"more runs of each arm": at_least(measures["runs"], context["runs"])}
    )


#: What learnt nothing.
NULL = noise_around("arms that do not turn", {"with": 0.0, "without": 0.0})

b5 = register_rule(
    "B5",
    measure,
    decide,
    effect=Effect("with", unit="°", null="without", n="runs"),
    null_model=NULL,
)
