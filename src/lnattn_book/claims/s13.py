"""S13: layers above the first join pieces, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn.stats import bootstrap_means
from lnattn_book.claims.conditions import Condition, Truths, above, any_of, at_least
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART
from lnattn_book.studies.layers_above import LayersAbove


def measure(context: RuleContext, tables: LayersAbove) -> dict[str, Any]:
    """Of the queries without their mean, layer by layer above the first."""
    is_found = tables.found[0].astype(float)
    chance = tables.chance[0]
    by_luck = chance.mean(axis=1)
    excess = is_found - by_luck[:, None]
    shares = Interval.rows(bootstrap_means(is_found[1:])).bonferroni()
    band = np.quantile(chance[1:], 1 - 0.025 / max(len(is_found) - 1, 1), axis=1)
    return {
        "times": Interval(*(np.asarray(end) / by_luck[1:] for end in shares)),
        "beyond": Interval.of(shares.value - band),
        "more": Interval.rows(bootstrap_means(excess[1:] - excess[0])).bonferroni(),
        "first": float(excess[0].mean()),
        "pieces": is_found.shape[1],
        "layer": f"{1 + int(np.argmax(excess[1:].mean(axis=1)))}",
    }


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    many = at_least(measures["times"], context["times"])
    return {
        "a layer above joins": any_of(many & above(measures["beyond"], 0)),
        "it joins more than the first": any_of(above(measures["more"], 0)),
    }


def made_up(*shares: float) -> LayersAbove:
    """Tables of layers that find these shares of 400 pieces, where chance finds 5 %."""
    layers = len(shares)
    is_found = np.arange(400) < 400 * np.array(shares)[:, None]
    drawn = np.random.default_rng(0).binomial(400, 0.05, size=(2, 1, 1000)) / 400
    chance = drawn.repeat(layers, axis=1)
    sums = np.ones((3, layers))
    heads = np.ones((2, layers, 1))
    return LayersAbove(np.stack([is_found] * 2), chance, heads, sums, sums, sums, {})


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (made_up(0.05, 0.05, 0.4),)),
        Trial("the first joins most", HOLDS_IN_PART, (made_up(0.5, 0.3, 0.05),)),
        Trial("chance in every layer", FAILS, (made_up(0.05, 0.05, 0.05),)),
    ]


#: What learnt nothing.
NULL = NullModel("the same embeddings; the entries of each block's weights in random order")

s13 = register_rule(
    "S13",
    measure,
    decide,
    effect=Effect("more", unit="of the pieces (best layer)", null=0, n="pieces", pick="largest"),
    null_model=NULL,
    trials=trials,
)
