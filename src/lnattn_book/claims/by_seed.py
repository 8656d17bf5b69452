"""D9, S13 and S14 of models that are alike but for their seed: over seeds.

Claims, thresholds and readers' words are those of one model (`ours`); what is compared with them
are means over seeds. `experiments/switch` and `experiments/layers_above` say how, and said so
before any number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims import ours
from lnattn_book.claims.conditions import above, any_of, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.measures import Detail, Measures
from lnattn_book.claims.over_seeds import apart, chosen, in_most_seeds, one, over_seeds
from lnattn_book.claims.rules import At, Effect, Parts, rule
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy, chance_of

# ---- D9 ------------------------------------------------------------------------------------------


def in_chosen_heads(
    at: At, texts: Sequence[SwitchStudy], weights: Sequence[ConstantsStudy]
) -> dict[str, Any]:
    """Of the head chosen in each seed, what D9 asks, over seeds; studies are in halves."""
    rows = []
    turned: list[list[dict[str, float]]] = [[] for _ in weights[0].turned_attention]
    for text, weight in zip(texts, weights, strict=True):
        of_ed = text.shares[text.of("ed")]
        head = chosen(text.attention, text.queries)
        row = in_head(head, at.share, text.queries, text.attention, of_ed)
        chance = chance_times_heads(weight.nats, weight)[head]
        by_weights = {"nats": weight.nats[head], "matched": weight.matched[head]}
        rows.append({**row, "chance": chance, **by_weights})
        on_text = zip(weight.turned_attention, weight.turned_ed, weight.turned_nats, strict=False)
        for draw, (attention, ed, nats) in zip(turned, on_text, strict=True):
            head = chosen(attention, weight.queries)
            row = in_head(head, at.share, weight.queries, attention, ed)
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


@rule(
    "D9",
    measure=in_chosen_heads,
    effect=Effect(
        "more", unit="of the attention (one head a seed)", null=0, n="seeds", pick="largest"
    ),
    null=ours.d9.null,
    not_seen=True,
    unsure="more seeds",
)
def switch(m: Measures, at: At) -> Parts:
    """With rotary positions a head looks back when the query continues a word."""
    asks = above(m.more, at.more)
    return {
        "a head looks back from pieces more than from words": any_of(asks),
        "T^ed makes most of it there": any_of(asks & above(m.beyond, 0)),
        "the weights alone tell": any_of(asks & below(m.chance, at.level)),
    }


# ---- S13 and S14 ---------------------------------------------------------------------------------


def joined_over_seeds(at: At, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S13 measures of each seed, over seeds; intervals hold for all layers together."""
    seeds = [ours.s13.measures(table) for table in tables]
    values = {
        name: over_seeds([np.asarray(Interval.of(seed[name]).value) for seed in seeds])
        for name in ("times", "beyond", "more")
    }
    first = float(np.mean([seed["first"] for seed in seeds]))
    pieces = round(float(np.mean([seed["pieces"] for seed in seeds])))
    layer = Detail(1 + int(np.argmax(values["more"].value)))
    return {**values, "first": first, "pieces": pieces, "layer": layer, "seeds": len(seeds)}


#: Layers above the first join pieces, too: over seeds.
joins_above = replace(
    ours.s13,
    measure=joined_over_seeds,
    effect=Effect("more", unit="of the pieces (best layer)", null=0, n="seeds", pick="largest"),
    unsure="more seeds",
)


def alone_over_seeds(at: At, tables: Sequence[LayersAbove]) -> dict[str, Any]:
    """What S14 measures of each seed, over seeds."""
    return alone_of([(table.far, table.spread) for table in tables])


def alone_of(seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """far and spread of each seed: [window layer]."""
    shares = [1 - far[:, 1:].sum(axis=0) / spread[:, 1:].sum(axis=0) for far, spread in seeds]
    return {"share": over_seeds(shares), "seeds": len(seeds)}


#: What a token brings alone is most of what reaches a layer: over seeds.
alone = replace(
    ours.s14,
    measure=alone_over_seeds,
    effect=Effect("share", unit="of the variance (least layer)", null=0, n="seeds", pick="least"),
    unsure="more seeds",
)
