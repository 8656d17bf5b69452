"""K10: four of the six terms matter; the mixed two contribute little."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.attention.terms import TERMS
from lnattn.stats import resampled_ratios
from lnattn_book.claims.conditions import above, at_least, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, contributions
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED

#: The terms that the paper finds to matter, and those that it does not.
PURE, MIXED = ("ee", "e", "p", "pp"), ("ep", "pe")


def measure(context: RuleContext, sums: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """sums, rows: [document term] in the order of `TERMS`, the sum of contributions over positions,
    averaged over heads, and the number of positions."""
    means = dict(zip(TERMS, sums.sum(axis=0) / rows.sum(axis=0), strict=True))
    pure = [TERMS.index(term) for term in PURE]
    mixed = [TERMS.index(term) for term in MIXED]
    measures: dict[str, Any] = {f"T_{term}": mean for term, mean in means.items()}
    for name in MIXED:
        more = sums[:, pure] - sums[:, [TERMS.index(name)]]
        measures[f"above_{name}"] = Interval.bootstrap_ratio(more, rows[:, pure], context["draws"])
    drawn = resampled_ratios(sums, rows, context["draws"])
    weakest = drawn[:, pure].min(axis=1)
    low, high = np.quantile(weakest / drawn[:, mixed].max(axis=1), (0.025, 0.975))
    ratio = min(means[term] for term in PURE) / max(means[term] for term in MIXED)
    return measures | {
        "order": " > ".join(sorted(means, key=means.__getitem__, reverse=True)),
        "ratio": Interval(ratio, low, high),
        "documents": len(sums),
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {
        "ep contributes least": every(above(measures["above_ep"], 0)),
        "pe contributes least": every(above(measures["above_pe"], 0)),
    }
    return Decision(parts, needs={"more than one document": at_least(measures["documents"], 2)})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, contributions(ep=0.1, pe=0.1)),
        Trial("in part", HOLDS_IN_PART, contributions(ep=0.1, pe=1.5, e=0.5)),
        Trial("fails", FAILS, contributions(ep=1.5, pe=1.5)),
        Trial("too much noise", UNDECIDED, contributions(ep=0.1, pe=1.0, spread=0.5)),
        Trial("one document", UNDECIDED, contributions(documents=1)),
    ]


#: What learnt nothing.
NULL = noise_around("terms of one size", {"above_ep": 0.0, "above_pe": 0.0})

k10 = register_rule(
    "K10",
    measure,
    decide,
    effect=Effect("ratio", unit="times", null=1, n="documents"),
    null_model=NULL,
    trials=trials,
)
