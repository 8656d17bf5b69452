"""K3: the best keys of a token complete it to a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn_book.claims.conditions import at_least, at_most, is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel, around
from lnattn_book.claims.rules import Decision, Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, pairs
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED
from lnattn_book.studies.table1 import distinct_pairs


def ratios_by_query(known: pd.DataFrame, draws: int = 2000) -> Float[np.ndarray, "draw"]:
    """Median best rank over that of random queries, when query tokens are drawn anew.

    Pairs share their queries, so that a query is drawn with all of its pairs.
    """
    ranks = [
        query[["best rank", "chance"]].to_numpy(dtype=float)
        for _, query in known.groupby("query id")
    ]
    picks = np.random.default_rng(0).integers(len(ranks), size=(draws, len(ranks)))
    medians = [
        np.median(np.concatenate([ranks[query] for query in pick]), axis=0) for pick in picks
    ]
    best, chance = np.array(medians).T
    return np.asarray(best / chance)


def measure(context: RuleContext, table: pd.DataFrame, iens: Sequence[int] = ()) -> dict[str, Any]:
    """table: from `table1.table1_ranks`; iens: ranks of ‘ sap’ and ‘Al’ for ‘iens’, if known.

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
        low, high = np.quantile(ratios_by_query(known), (0.025, 0.975))
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


def random_queries(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """What random queries give for the keys of the pairs."""
    best = measures["best"].value
    return {
        "best": Detail(np.full_like(best, measures["chance"])),
        "printed": Detail(np.zeros_like(measures["printed"].value)),
        "less": around(measures["less"], 1.0, generator),
        "first_two": measures["first_two"] * 0.0,
    }


#: What learnt nothing.
NULL = NullModel("random queries for the same keys", random_queries)

k3 = register_rule(
    "K3",
    measure,
    decide,
    effect=Effect("median", unit="median best rank", null="chance", n="pairs"),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
