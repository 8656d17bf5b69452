"""K3: the best keys of a token complete it to a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lnattn.affinity.table1 import distinct_pairs
from lnattn_book.claims.conditions import at_least, at_most, is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.rules import Decision, Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, pairs
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED


def measure(context: RuleContext, table: pd.DataFrame, iens: Sequence[int] = ()) -> dict[str, Any]:
    """table: `lnattn.affinity.table1.look_up`; iens: ranks of ‘ sap’ and ‘Al’ for ‘iens’, if known.

    Elsewhere than in GPT-2 the printed ranks mean nothing: pairs are looked up in all heads.
    """
    known = distinct_pairs(table)
    best = known["best rank"].to_numpy(dtype=float)
    chance = known["chance"].to_numpy(dtype=float)
    printed = (table["rank here"] == table["rank"]).fillna(False).to_numpy(dtype=bool)
    measures: dict[str, Any] = {
        "pairs": len(known),
        "median": np.nan,
        "chance": np.nan,
        "best": Detail(best),
        "printed": Detail(printed),
        "less": Interval(np.nan, np.nan, np.nan),
        "first_two": np.sort(iens) <= [1, 2] if context.own and len(iens) else np.full(2, np.nan),
    }
    if len(known):
        median = Interval.bootstrap_median(best)
        measures |= {"median": median, "chance": np.median(chance)}
        picks = np.random.default_rng(0).integers(len(known), size=(2000, len(known)))
        drawn = np.median(best[picks], axis=1) / np.median(chance[picks], axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        measures["less"] = Interval(median.value / measures["chance"], low, high)
    return measures


def decide(measures: Measures, context: RuleContext) -> Decision:
    rank_matches = measures["best"].value <= context["rank"]
    less = measures["less"]
    if context.own:
        rank_matches = measures["printed"].value
        less = Interval.of(1.0 - rank_matches.any())
    return Decision(
        {
            "every pair": is_true(rank_matches),
            "pairs beyond chance": at_most(less, context["chance"]),
            "‘iens’ finds ‘ sap’ and ‘Al’ first": is_true(measures["first_two"]),
        },
        needs={"a larger vocabulary": at_least(measures["pairs"], context["pairs"])},
        more={"met": rank_matches, "less": less, "top": measures["first_two"]},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (pairs(1, 2, 3, 9, 10),)),
        Trial("in part", HOLDS_IN_PART, (pairs(1, 2, 3, 9, 11),)),
        Trial("not seen", NOT_SEEN, (pairs(*[900] * 9),)),
        Trial("too few pairs", UNDECIDED, (pairs(1, 2, 3, 4, np.nan),)),
        Trial(
            "half of chance lies in the interval", UNDECIDED, (pairs(100, 400, 600, 1200, 1500),)
        ),
        Trial(
            "one pair four times over",
            UNDECIDED,
            (pairs(1, 1, 1, 1, 900, repeated=True),),
        ),
        Trial(
            "holds on GPT-2", HOLDS, (pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)), [1, 2]), own=True
        ),
        Trial(
            "in part on GPT-2",
            HOLDS_IN_PART,
            (pairs(1, 1, 1, 1, 1, here=(1, 2, 3, 4, 5)), [1, 3]),
            own=True,
        ),
        Trial("fails on GPT-2", FAILS, (pairs(1, 1, 1, 1, 1, here=(2, 3, 4, 5, 6)),), own=True),
    ]


k3 = register_rule(
    "K3",
    measure,
    decide,
    effect=Effect("median", unit="median best rank", null="chance", n="pairs"),
    not_seen=True,
    trials=trials,
)
