"""B13: asked, not claimed: does another normal vector do as well?."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.arms import PROJECTED, end_lead
from lnattn_book.claims.conditions import Condition, Truths, above, at_least, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.studies.majority.encoder import ARMS
from lnattn_book.studies.majority.long_runs import Experiment


def measure(
    context: RuleContext, runs: Experiment, other: str, several: Sequence[str]
) -> dict[str, Any]:
    """other, several: names of the arms with another normal vector, and with several."""
    arms = (other, *several)
    leads = 100 * np.array([end_lead(runs, arm, PROJECTED) for arm in arms])
    return {
        "lead": Interval.rows(leads),
        "other": Interval(*leads[0]),
        "arms": ", ".join(ARMS[arm].title.split(",")[0] for arm in arms),
        "seeds": len(runs.of(other).seeds),
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts: dict[str, Condition | Truths] = {
        "another vector does as well": above(measures["other"], -context["much"]),
        "so do several": every(above(measures["lead"], -context["much"])),
    }
    return Decision(parts, needs={"more seeds": at_least(measures["seeds"], context["runs"])})


#: What would say no: vectors that cost twice what is still called as well.
NULL = noise_around("vectors that cost two points", {"other": -2.0, "lead": -2.0}, joint=True)


b13 = register_rule(
    "B13",
    measure,
    decide,
    effect=Effect("other", unit="points", null=0, n="seeds"),
    null_model=NULL,
)
