"""Chapter 5: what a head's two position terms do alone and together, and on text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn.attention.folding import fold
from lnattn.position.bias import PositionBias, position_bias, share_of_context
from lnattn.position.curves import (
    rising_steps,
    second_half_medians,
    straight_after,
    trend,
    wave_recurrence,
)
from lnattn.position.measured import (
    MeasuredAttention,
    compare_with_position_only,
    measured_attention,
    near_share,
)
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.position.without_tokens import PositionOnly
from lnattn.weights import FirstLayer, require_absolute
from lnattn_book.studies import samples


class OneHead(NamedTuple):
    """What one head's position terms say of the keys that one query sees, [key].

    slope, wave: T^p and T^pp over √d_head; attention: the softmax of their sum.
    """

    slope: Float[np.ndarray, "key"]
    wave: Float[np.ndarray, "key"]
    attention: Float[np.ndarray, "key"]


def one_head(bias: PositionBias, head: int, query: int) -> OneHead:
    """The curves of one head for one of `bias.queries`, up to the query."""
    row = bias.queries.index(query)
    seen = slice(query + 1) if bias.causal else slice(None)
    return OneHead(
        bias.term_p().mean[head, seen] / bias.scale,
        bias.term_pp().mean[head, row, seen] / bias.scale,
        bias.attention()[head, row, seen],
    )


class Crest(NamedTuple):
    """Where the wave of one query is highest, but for position 0, beside the query itself.

    before: how many keys before the query; wave_higher and slope_lower: by how much either curve
    is higher, or lower, there than at the query.
    """

    before: int
    wave_higher: float
    slope_lower: float


def crest(curves: OneHead) -> Crest:
    """The highest crest of the wave among the keys of a query that sees none behind itself."""
    place = 1 + int(curves.wave[1:].argmax())
    return Crest(
        len(curves.wave) - 1 - place,
        float(curves.wave[place] - curves.wave[-1]),
        float(curves.slope[-1] - curves.slope[place]),
    )


class Falls(NamedTuple):
    """From its highest to its lowest value, how far each curve falls."""

    slope: float
    wave: float


def falls_over_nearest(curves: OneHead, keys: int = 10) -> Falls:
    """How far slope and wave fall over the last keys before a query, itself among them."""
    return Falls(float(np.ptp(curves.slope[-keys:])), float(np.ptp(curves.wave[-keys:])))


#: A curve of T^pp is called a wave here if it has as many cycles in the context and a sine explains
#: as much of what a straight line leaves.
WAVE_CYCLES, WAVE_SHARE = 1.5, 0.8


def near_by_parts(bias: PositionBias, query: int) -> pd.DataFrame:
    """Share of attention on the nearest ten keys by T^p alone, by T^pp alone, and by their sum.

    query: one of `bias.queries`. One row a head; columns 'slope', 'wave' and 'both'.
    """
    row = bias.queries.index(query)
    parts = {
        "slope": replace(bias, comparison=np.zeros_like(bias.comparison)),
        "wave": replace(bias, self_assertion=np.zeros_like(bias.self_assertion)),
        "both": bias,
    }
    shares = {
        name: near_share(part.attention(), bias.queries, bias.causal)[:, row]
        for name, part in parts.items()
    }
    return pd.DataFrame(shares, index=pd.RangeIndex(bias.n_heads, name="head"))


def heads(position: PositionOnly, bias: PositionBias) -> pd.DataFrame:
    """One row a head of a model without token embeddings: its slope, its wave, and where it looks.

    position: the frozen terms; bias: the same with a divisor. 'slope' is Spearman's ρ of T^p with
    the place of the key, 'slope, any σ' the one nearest 0 over all assumed variances of tokens;
    'waves' how many cycles of T^pp fit into the context, 'wavelength' in positions, 'is wave' by
    `WAVE_CYCLES` and `WAVE_SHARE`; 'crest' how far before the query the highest T^pp typically
    lies, 'near beats far' the share of far keys that score below the mean near one; 'near' and
    'wave left', for the last of `bias.queries`, the share of attention on the nearest ten keys and
    `wave_recurrence`.
    """
    shape = position.table()
    distance, percentile = second_half_medians(position.peak, position.percentile)
    smallest = np.abs(position.spearman).argmin(axis=0)
    return pd.DataFrame(
        {
            "slope": shape["T^p Spearman"],
            "slope, any σ": position.spearman[smallest, np.arange(bias.n_heads)],
            "waves": shape["T^pp cycles"],
            "wavelength": shape["T^pp wavelength"],
            "is wave": (shape["T^pp cycles"] >= WAVE_CYCLES)
            & (shape["T^pp wave share"] > WAVE_SHARE),
            "crest": distance,
            "near beats far": percentile,
            "near": near_share(bias.attention(), bias.queries, bias.causal)[:, -1],
            "wave left": wave_recurrence(bias)[:, -1],
        }
    )


def rising(
    curves: Float[np.ndarray, "*curve position"], queries: Sequence[int]
) -> list[Float[np.ndarray, "*curve"]]:
    """Of each curve, the share of rising steps up to each query."""
    return [rising_steps(curves, query) for query in queries]


#: From here on the variances of GPT-2's positions are level (chapter 7).
LEVEL_FROM = 22


def steps_and_line(bias: PositionBias) -> pd.DataFrame:
    """Whether T^p rises step by step, and how straight it is; a row a head.

    Columns 'up to i', the share of rising steps up to each of `bias.queries`; 'ρ up to i', of the
    first of them; 'falls by' and 'lowest at', from place 1 to the lowest place, over √d_head;
    'straight', R² of a line from `LEVEL_FROM` on.
    """
    asserted = bias.term_p().mean
    first = bias.queries[0]
    seen = asserted[:, 1:-1]
    lowest = 1 + seen.argmin(axis=1)
    steps = rising(asserted, bias.queries)
    columns = {f"up to {i}": share for i, share in zip(bias.queries, steps, strict=True)}
    early = [trend(curve[: first + 2]).spearman for curve in asserted]
    return pd.DataFrame(
        {
            **columns,
            f"ρ up to {first}": early,
            "lowest at": lowest,
            "falls by": (seen[:, 0] - seen.min(axis=1)) / bias.scale,
            "straight": straight_after(asserted, LEVEL_FROM),
        },
        index=pd.RangeIndex(bias.n_heads, name="head"),
    )


class Range(NamedTuple):
    """The least and the largest score."""

    least: float
    most: float


def range_of_wave(bias: PositionBias, head: int) -> dict[int, Range]:
    """By query, between what T^pp lies over the keys that it sees, position 0 left out.

    Not divided by the scale, as in the paper.
    """
    compared = bias.term_pp().mean[head]
    return {
        query: Range(float(curve[1 : query + 1].min()), float(curve[1 : query + 1].max()))
        for query, curve in zip(bias.queries, compared, strict=True)
    }


#: So many positions before the query a crest of T^pp is one wave of GPT-2 away.
ONE_WAVE = (420, 470)


class Waves(NamedTuple):
    """The waves of a table of `heads`: their median length in positions, and where crests lie.

    at_query: heads whose highest T^pp typically lies by the query; wave_ago: those in which it lies
    `ONE_WAVE` before it.
    """

    wavelength: float
    at_query: list[int]
    wave_ago: list[int]


def waves(heads: pd.DataFrame, near: int) -> Waves:
    """near: up to how many keys before the query a crest is by the query."""
    return Waves(
        float(heads["wavelength"][heads["is wave"]].median()),
        heads.index[heads["crest"] <= near].tolist(),
        heads.index[heads["crest"].between(*ONE_WAVE)].tolist(),
    )


def heights(bias: PositionBias) -> Float[np.ndarray, "head"]:
    """How far T^pp of the last of `bias.queries` rises over the keys that it sees, 0 left out.

    Not divided by the scale.
    """
    seen = slice(1, bias.queries[-1] + 1) if bias.causal else slice(1, None)
    return np.ptp(bias.term_pp().mean[:, -1, seen], axis=-1)


def looking_near(bias: PositionBias) -> list[int]:
    """The heads that put more than half of their attention on the nearest ten keys, at the last
    of `bias.queries`."""
    near = near_share(bias.attention(), bias.queries, bias.causal)[:, -1]
    return np.flatnonzero(near > 1 / 2).tolist()


@dataclass(frozen=True, eq=False)
class OnText:
    """A model's position terms, its attention on text for the same queries, and both compared.

    comparison: as `lnattn.position.measured.compare_with_position_only` gives it, one row a head.
    """

    terms: PositionBias
    measured: MeasuredAttention
    comparison: pd.DataFrame


def on_text(first: FirstLayer) -> OnText:
    """Measure a first layer on the book's sample of text, beside its attention by position.

    The queries are the paper's 50, 500 and 1000, or those at the same share of a shorter context.
    Windows are parts of articles, without a beginning-of-text token, as in the authors' code.
    """
    folded = fold(require_absolute(first).attention)
    W_P = first.embeddings.W_P
    queries = share_of_context(len(W_P))
    terms = position_bias(folded, W_P, queries, inverse_sigma_bands(first.embeddings, folded.eps))
    windows, _ = samples.sample_windows(first, queries[-1] + 1)
    measured = measured_attention(folded, first.embeddings, windows, queries, terms)
    return OnText(terms, measured, compare_with_position_only(measured, terms))
