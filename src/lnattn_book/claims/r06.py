"""R6: heads also compose through queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn.stats import resampled_counts
from lnattn_book.claims.conditions import Condition, Truths, above
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import noise_around
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, composition
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED


def ratio_by_layer(tail: Float[np.ndarray, "2 layers"], draws: int = 2000) -> Interval:
    """Usable pairs of heads over others, when layers are drawn anew.

    tail: of each two layers, in the order of `itertools.combinations`. A pair of layers is taken as
    often as both of them are drawn.
    """
    layers = round((1 + np.sqrt(1 + 8 * tail.shape[1])) / 2)
    first, second = np.triu_indices(layers, k=1)
    times = resampled_counts(layers, draws)
    usable, others = tail @ (times[:, first] * times[:, second]).T
    drawn = np.divide(usable, others, out=np.full(draws, np.inf), where=others > 0)
    low, high = np.quantile(drawn, (0.025, 0.975), method="closest_observation")
    return Interval(tail[0].sum() / tail[1].sum(), low, high)


def measure(context: RuleContext, tenth: np.ndarray, hundredth: np.ndarray) -> dict[str, Any]:
    """`lnattn.composition.exceedances` by the highest tenth and hundredth, [kind side layers].

    Pairs of layers share them, so that layers are drawn and not pairs.
    """
    measures = {
        f"{kind}_{name}": ratio_by_layer(tail[place].astype(np.float64))
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


#: What learnt nothing.
NULL = noise_around(
    "usable pairs like impossible ones",
    {"K_tenth": 1.0, "K_hundredth": 1.0, "Q_tenth": 1.0, "Q_hundredth": 1.0},
)

r6 = register_rule(
    "R6",
    measure,
    decide,
    effect=Effect("weakest", unit="times as many", null=1),
    null_model=NULL,
    trials=trials,
)
