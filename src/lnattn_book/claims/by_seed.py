"""D9, S13 and S14 of models that are alike but for their seed: over seeds.

Claims, thresholds and readers' words are those of one model (`d09` and the others); what is
compared with them are means over seeds. `experiments/switch` and `experiments/layers_above` say
how, and said so before any number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims import d09, s13, s14
from lnattn_book.claims.conditions import Condition, Truths, above, any_of, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.over_seeds import apart, chosen, in_most_seeds, one, over_seeds
from lnattn_book.claims.rules import Detail, Effect, Measures, Rule, RuleContext
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy, chance_of

# ---- D9 ------------------------------------------------------------------------------------------


def switch_measures(
    context: RuleContext, texts: Sequence[SwitchStudy], weights: Sequence[ConstantsStudy]
) -> dict[str, Any]:
    """Of the head chosen in each seed, what D9 asks, over seeds; studies are in halves."""
    share = context["share"]
    rows = []
    turned: list[list[dict[str, float]]] = [[] for _ in weights[0].turned_attention]
    for text, weight in zip(texts, weights, strict=True):
        of_ed = text.shares[text.of("ed")]
        head = chosen(text.attention, text.queries)
        row = in_head(head, share, text.queries, text.attention, of_ed)
        chance = chance_times_heads(weight.nats, weight)[head]
        by_weights = {"nats": weight.nats[head], "matched": weight.matched[head]}
        rows.append({**row, "chance": chance, **by_weights})
        on_text = zip(weight.turned_attention, weight.turned_ed, weight.turned_nats, strict=False)
        for draw, (attention, ed, nats) in zip(turned, on_text, strict=True):
            head = chosen(attention, weight.queries)
            row = in_head(head, share, weight.queries, attention, ed)
            draw.append({**row, "chance": chance_times_heads(nats, weight)[head]})
    nulls = Detail([switched(draw) for draw in turned])
    return {**switched(rows), "turned": nulls, "seeds": len(texts)}


def in_head(
    head: int, share: float, queries: np.ndarray, attention: np.ndarray, ed: np.ndarray
) -> dict[str, float]:
    """Pieces less words of the attention, of T^ed, and of T^ed less a share of the attention."""
    sums = {"more": attention, "by_ed": ed, "beyond": ed - share * attention}
    return {name: float(apart(of_name, queries, 1)[head]) for name, of_name in sums.items()}


def chance_times_heads(nats: np.ndarray, study: ConstantsStudy) -> Float[np.ndarray, "head"]:
    """The share of turned k₀ that reach as far, times the number of heads."""
    return chance_of(nats, study.turned_nats) * len(nats)


def switched(rows: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    """Over seeds."""
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    chance = in_most_seeds(columns.pop("chance"))
    means = {name: over_seeds(column) for name, column in columns.items()}
    shown = {name: one(means[name]) for name in ("nats", "matched") if name in means}
    return means | shown | {"chance": chance}


def decide_switch(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    asks = above(measures["more"], context["more"])
    return {
        "a head looks back from pieces more than from words": any_of(asks),
        "T^ed makes most of it there": any_of(asks & above(measures["beyond"], 0)),
        "the weights alone tell": any_of(asks & below(measures["chance"], context["level"])),
    }


switch = Rule(
    "D9",
    switch_measures,
    decide_switch,
    effect=Effect(
        "more", unit="of the attention (one head a seed)", null=0, n="seeds", pick="largest"
    ),
    not_seen=True,
    null_model=d09.NULL,
    unsure="more seeds",
)


# ---- S13 and S14 ---------------------------------------------------------------------------------


def layers_measures(context: RuleContext, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S13 measures of each seed, over seeds; intervals hold for all layers together."""
    seeds = [s13.measure(context, table) for table in tables]
    values = {
        name: over_seeds([np.asarray(Interval.of(seed[name]).value) for seed in seeds])
        for name in ("times", "beyond", "more")
    }
    first = float(np.mean([seed["first"] for seed in seeds]))
    pieces = round(float(np.mean([seed["pieces"] for seed in seeds])))
    layer = f"{1 + int(np.argmax(values['more'].value))}"
    return {**values, "first": first, "pieces": pieces, "layer": layer, "seeds": len(seeds)}


joins_above = Rule(
    "S13",
    layers_measures,
    s13.decide,
    effect=Effect("more", unit="of the pieces (best layer)", null=0, n="seeds", pick="largest"),
    null_model=s13.NULL,
    unsure="more seeds",
)


def alone_measures(context: RuleContext, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S14 measures of each seed, over seeds."""
    return alone_of([(table.far, table.spread) for table in tables])


def alone_of(seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """far and spread of each seed: [window layer]."""
    shares = [1 - far[:, 1:].sum(axis=0) / spread[:, 1:].sum(axis=0) for far, spread in seeds]
    return {"share": over_seeds(shares), "seeds": len(seeds)}


alone = Rule(
    "S14",
    alone_measures,
    s14.decide,
    effect=Effect("share", unit="of the variance (least layer)", null=0, n="seeds", pick="least"),
    null_model=s14.NULL,
    unsure="more seeds",
)
