"""N7: models that centre write less along 1 than chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lnattn.errors import ResultError
from lnattn_book.claims.conditions import Condition, Truths, every, is_true, most
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, written
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


def measure(context: RuleContext, table: pd.DataFrame) -> dict[str, Any]:
    """table: columns `along`, `low`; a row a matrix that only writes. `times`: A over chance or
    chance over A, whichever is larger."""
    if table.empty:
        raise ResultError("no matrix that only writes was given.")
    below_chance = (table["along"] < table["low"]).to_numpy()
    mean = float(np.exp(np.log(table["along"]).mean()))
    return {
        "below": below_chance,
        "share": below_chance.mean(),
        "times": max(mean, 1 / mean),
        "along": table["along"].to_numpy(),
        "mean": mean,
        "matrices": len(table),
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    below_chance = is_true(measures["below"])
    return {
        "in most matrices": most(below_chance),
        "in every one": every(below_chance),
    }


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (written(0.1, 0.3, 0.79),)),
        Trial("in part", HOLDS_IN_PART, (written(0.1, 0.3, 0.81),)),
        Trial("one half is not more than half", FAILS, (written(0.1, 0.9, 1.0, 0.2),)),
    ]


def random_signs(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Directions of random signs, of which a fortieth lies below the tail."""
    return {"below": generator.random(measures["matrices"]) < 0.025}


#: What learnt nothing.
NULL = NullModel("a direction of random signs in place of 1", random_signs)

n7 = register_rule(
    "N7",
    measure,
    decide,
    effect=Effect("mean", unit="A (geometric mean)", null=1, n="matrices", exact=True),
    null_model=NULL,
    trials=trials,
)
