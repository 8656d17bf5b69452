"""N1: majority is learnt better with the projection, at equal norm."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.arms import measure_leads
from lnattn_book.claims.conditions import above, at_least, every
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.studies.majority.long_runs import Experiment

#: Arms, the one that should be worse first.
PAIRS = [("rms", "layernorm")]


def measure(context: RuleContext, runs: Experiment) -> dict[str, Any]:
    """runs: every arm at its best rate and scale."""
    return measure_leads(runs, PAIRS)


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {"": every(above(measures["lead"], 0))}
    return Decision(parts, needs={"more seeds": at_least(measures["seeds"], context["runs"])})


#: What learnt nothing.
NULL = noise_around("arms that learn alike", {"lead": 0.0}, joint=True)

n1 = register_rule(
    "N1",
    measure,
    decide,
    effect=Effect("lead", unit="points (least pair)", null=0, n="seeds", pick="least"),
    null_model=NULL,
)
