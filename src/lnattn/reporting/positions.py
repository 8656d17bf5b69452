"""Positions: what each head prefers by place or distance alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.position.bias import PositionBias, position_bias, share_of_context
from lnattn.position.curves import NEAR, nearness, position_table
from lnattn.position.measured import near_share
from lnattn.reporting.drawing import Line, Panel, small_multiples
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.heads import HALF, listed
from lnattn.reporting.part import Figure, Part, Table
from lnattn.reporting.words import DISTANCE_COLOURS, DISTANCE_NAMES, TERM_COLOURS
from lnattn.rotary.position import attention_of_curve, distance_variance
from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.weights import FirstLayer

#: Distances that curves of rotary and relative models go over.
DISTANCES = 256


def positions(evidence: Evidence) -> Part:
    """Attention by place alone and T^pp's waves; of other models the curves over the distance."""
    return by_distance(evidence) if evidence.is_relative else by_place(evidence)


def by_place(evidence: Evidence) -> Part:
    """Position terms of a model with learned positions."""
    model = evidence.model
    assert isinstance(model, FirstLayer)
    W_P = model.embeddings.W_P
    sigma = None if model.is_partial else evidence.inverse_sigma
    bias = position_bias(evidence.folded, W_P, share_of_context(len(W_P)), sigma)
    table = position_table(bias, nearness(evidence.folded, W_P, sigma))
    waves = bias.term_pp().mean[:, -1]
    last = bias.queries[-1]
    seen = last + 1 if bias.causal else bias.n_positions
    titles = [
        f"head {head}: {length:.0f} positions" for head, length in table["T^pp wavelength"].items()
    ]
    panels = [
        Panel(title, [Line(curve[1:seen], TERM_COLOURS["pp"])])
        for title, curve in zip(titles, waves, strict=True)
    ]
    drawing = small_multiples(panels, "key position", "T^pp of every head for one query")
    figures = [
        Figure(
            drawing,
            f"Position → position: T^pp of query {last} over the keys that it sees, position 0 "
            "left out; every panel has its own scale. Its title: the wavelength of the best sine.",
        )
    ]
    numbers: dict[str, object] = {
        "queries": list(bias.queries),
        "T^pp": waves,
        "T^p": bias.term_p().mean,
        "by_head": table,
    }
    if sigma is not None:
        figures.insert(0, _attention(bias))
        numbers["attention"] = bias.attention()[:, -1]
    return Part(
        name="positions",
        title="What heads prefer by position",
        sentences=_told(bias, table, is_scaled=sigma is not None),
        figures=figures,
        tables=[Table("Position terms by head", table, dict.fromkeys(table, ".3g"))],
        numbers=numbers,
    )


def _attention(bias: PositionBias) -> Figure:
    """Attention by position alone of the last query, a panel a head."""
    last = bias.queries[-1]
    attention = bias.attention()
    near = near_share(attention, bias.queries, bias.causal)[:, -1]
    panels = []
    for head, curve in enumerate(attention[:, -1]):
        keys = curve[: last + 1] if bias.causal else curve
        panels.append(Panel(f"head {head}: {near[head]:.0%} near", [Line(keys, "var(--lr-ink)")]))
    return Figure(
        small_multiples(panels, "key position", "Attention by position alone of every head"),
        "Attention by position alone: the softmax of (T^p + T^pp)/√d′ at the mean of 1/σ, for "
        f"query {last}. Every panel has its own scale; its title gives the share of the nearest "
        f"ten keys.",
    )


def _told(bias: PositionBias, table: pd.DataFrame, *, is_scaled: bool) -> list[str]:
    waves = table["T^pp cycles"] >= 1.5
    strong = table["T^pp wave share"] > 0.8
    wavy = np.flatnonzero(waves & strong).tolist()
    told = (
        f"T^pp is a wave in {listed(wavy)}: 1.5 cycles or more, and a sine explains more than 80 % "
        "of what a line leaves."
        if wavy
        else "T^pp is a wave in no head: nowhere does a sine of 1.5 cycles or more explain more "
        "than 80 % of what a line leaves."
    )
    if not is_scaled:
        return [
            told,
            "The checkpoint has no token embeddings, so σ is not known: terms are shown before the "
            "division by it, and attention by position alone is left out.",
        ]
    near = near_share(bias.attention(), bias.queries, bias.causal)[:, -1]
    looking = np.flatnonzero(near > HALF).tolist()
    who = listed(looking).capitalize() if looking else "No head"
    puts = "puts" if len(looking) < 2 else "put"
    return [
        f"{who} {puts} more than half of attention on the nearest ten keys by position alone.",
        told,
    ]


@dataclass(frozen=True, eq=False)
class DistanceCurves:
    """What heads prefer by distance alone: `by_distance`'s curve, and that of permuted weights.

    curve, permuted: [head distance], over the scale; share: [term head], of the variance of scores
    between the keys of a query; sinks: [head], of the model's learned sinks, or None.
    """

    curve: Float[np.ndarray, "head distance"]
    permuted: Float[np.ndarray, "head distance"]
    share: Float[np.ndarray, "term head"]
    sinks: Float[np.ndarray, "head"] | None = None

    def table(self) -> pd.DataFrame:
        """One row a head: shares of the four terms, and where distance alone would look."""
        alone = attention_of_curve(self.curve, self.sinks)
        rows = {
            DISTANCE_NAMES[name]: row for name, row in zip(DISTANCE_TERMS, self.share, strict=True)
        }
        rows |= {
            "on itself": alone[:, 0],
            "on the key before": alone[:, 1],
            "on the nearest ten": alone[:, :NEAR].sum(axis=1),
        }
        return pd.DataFrame(rows).rename_axis("head")


def curves_of(evidence: Evidence) -> DistanceCurves:
    """Curves over the distance, tokens weighted by the counts where they fit."""
    model = evidence.model
    assert isinstance(model, RelativeFirstLayer)
    counted = evidence.counts
    weights = np.ones(model.embeddings.vocab_size) if counted is None else counted[0].unigrams
    longest = min(DISTANCES, model.context or DISTANCES, model.attention.window or DISTANCES)
    distances = range(max(longest, 2))
    curves = distance_variance(evidence.folded_relative, model.embeddings, weights, distances)
    null = evidence.with_random_heads()
    of_null = distance_variance(null.folded_relative, model.embeddings, weights, distances)
    scale = model.attention.scale
    sinks = model.attention.sinks
    return DistanceCurves(
        curve=curves.curve / scale,
        permuted=of_null.curve / scale,
        share=curves.share,
        sinks=None if sinks is None else sinks.double().numpy(),
    )


def by_distance(evidence: Evidence) -> Part:
    """Curves over the distance of a model with rotary or relative positions."""
    curves = curves_of(evidence)
    table = curves.table()
    colour = DISTANCE_COLOURS["d"]
    panels = [
        Panel(
            f"head {head}: {share:.0%} near",
            [
                Line(null - null.mean(), "var(--lr-grey)", thin=True),
                Line(curve - curve.mean(), colour),
            ],
        )
        for head, (curve, null, share) in enumerate(
            zip(curves.curve, curves.permuted, table["on the nearest ten"], strict=True)
        )
    ]
    weighted = "their counts" if evidence.counts is not None else "one each: no counts fit"
    caption = (
        "Distance alone: what the mean query gives the mean key, over the scale, less its mean, by "
        "how far the key stands before the query. Grey: the same with the heads' weights in random "
        "order. The title: attention on the nearest ten keys if distance alone decided. Tokens "
        f"weigh by {weighted}."
    )
    back = np.flatnonzero(table["on the key before"] > HALF).tolist()
    near = np.flatnonzero(table["on the nearest ten"] > HALF).tolist()
    leading = curves.share.argmax(axis=0)
    place = np.flatnonzero(np.isin(leading, [1, 3])).tolist()
    sentences = [
        (f"{listed(near).capitalize()} would" if near else "No head would")
        + " put more than half of attention on the nearest ten keys by distance alone"
        + (f"; {listed(back)} on the key just before." if back else ".")
    ]
    if place:
        sentences.append(
            f"In {listed(place)} the largest share of the variance of scores is the distance's."
        )
    return Part(
        name="positions",
        title="What heads prefer by distance",
        sentences=sentences,
        figures=[Figure(small_multiples(panels, "distance", "Distance alone, by head"), caption)],
        tables=[Table("Shares of variance by head", table, dict.fromkeys(table, ".1%"))],
        numbers={"curve": curves.curve, "permuted": curves.permuted, "by_head": table},
    )
