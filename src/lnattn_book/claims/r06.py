"""R6: heads also compose through queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, above
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, composition
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED


def measure(context: RuleContext, tenth: np.ndarray, hundredth: np.ndarray) -> dict[str, Any]:
    """`lnattn.composition.exceedances` by the highest tenth and hundredth, [kind side layers]."""
    measures = {
        f"{kind}_{name}": Interval.bootstrap_ratio(*tail[place].astype(np.float64))
        for name, tail in (("tenth", tenth), ("hundredth", hundredth))
        for place, kind in enumerate("QK")
    }
    return {**measures, "weakest": min(measures.values(), key=lambda ratio: float(ratio.low))}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "through keys": above(measures["K_tenth"], context["ratio"])
        & above(measures["K_hundredth"], context["ratio"]),
        "through queries": above(measures["Q_tenth"], context["ratio"])
        & above(measures["Q_hundredth"], context["ratio"]),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, composition(3.0, 2.0)),
        Trial("in part", HOLDS_IN_PART, composition(3.0, 1.2)),
        Trial("fails", FAILS, composition(1.2, 1.0)),
        Trial(
            "half of the layer pairs have none in the tail",
            UNDECIDED,
            (composition(3, 3)[0], np.tile([[3, 0], [1, 1]], (3, 1, 3))),
        ),
    ]


r6 = register_rule(
    "R6",
    measure,
    decide,
    effect=Effect("weakest", unit="times as many", null=1),
    trials=trials,
)
