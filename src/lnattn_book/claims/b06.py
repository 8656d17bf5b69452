"""B6: in three dimensions the trained queries are close to 1."""

from __future__ import annotations

from typing import Any

from lnattn_book.claims.arms import PROJECTED, of_arms
from lnattn_book.claims.conditions import above, at_least, below
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.majority.train import angles_to_ones


def measure(context: RuleContext, runs: Experiment, without: str) -> dict[str, Any]:
    """How far trained queries are from 1. without: the arm that has no projection."""
    queries = [runs.of(arm).queries for arm in (PROJECTED, without)]
    return of_arms(*(angles_to_ones(trained).mean(axis=1) for trained in queries))


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "close to 1 with projection": below(measures["with"], context["near"]),
        "not close without": above(measures["without"], context["near"]),
    }
    return Decision(
        parts, needs={"more runs of each arm": at_least(measures["runs"], context["runs"])}
    )


#: What learnt nothing.
NULL = noise_around("queries in random directions", {"with": 57.3, "without": 57.3})

b6 = register_rule(
    "B6",
    measure,
    decide,
    effect=Effect("with", unit="°", null=57.3, n="runs"),
    null_model=NULL,
)
