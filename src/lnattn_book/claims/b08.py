"""B8: without scaling a language model has unselectable keys in every layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition, Truths, at_least, every
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import UNTRAINED
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED
from lnattn_book.studies.language_models import mean_and_interval


def measure(
    context: RuleContext, exact: np.ndarray, searched: np.ndarray | None = None
) -> dict[str, Any]:
    """exact: shares [seed layer]; searched: as the papers count, [layer]."""
    by_layer = Interval.rows([mean_and_interval(layer) for layer in exact.T])
    reported = np.array(context["reported"]) / 100
    measures: dict[str, Any] = {
        "share": by_layer,
        "part": Interval(*(np.asarray(end) / reported for end in by_layer)),
        "seeds": len(exact),
        "apart": float(100 * np.abs(by_layer.value - reported).max()),
        "by_search": "",
    }
    if searched is not None:
        listed = ", ".join(f"{100 * share:.1f}" for share in searched)
        measures["by_search"] = f"; by the papers' search {listed} %"
    shares = enumerate(by_layer.value, start=1)
    return measures | {f"layer_{n}": 100 * share for n, share in shares}


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    return {
        "in every layer": every(at_least(measures["share"], context["some"])),
        "half as many as reported, or more": every(at_least(measures["part"], context["half"])),
    }


def trials() -> list[Trial]:
    shares = np.array([[0.5, 0.4, 0.4, 0.4], [0.52, 0.42, 0.42, 0.42]])
    return [
        Trial("holds", HOLDS, (shares, array(0.3, 0.3, 0.3, 0.3))),
        Trial("none", FAILS, (0 * shares,)),
        Trial("one seed", UNDECIDED, (shares[:1],)),
        Trial("one layer with few", HOLDS_IN_PART, (shares * [1, 1, 1, 0.125],)),
        Trial("one layer with next to none", FAILS, (shares * [1, 1, 1, 0.001],)),
    ]


b8 = register_rule(
    "B8",
    measure,
    decide,
    effect=Effect("share", unit="of the keys (least layer)", null=0, n="seeds", pick="least"),
    null_model=UNTRAINED,
    trials=trials,
)
