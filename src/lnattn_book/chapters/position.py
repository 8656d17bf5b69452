"""Chapter 5: what a head's two position terms do alone and together, and on text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from lnattn_book.claims.listed import claim
from lnattn_book.claims.nulls import frozen_nulls
from lnattn_book.page import Check, says
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


#: The columns of `heads` that the page shows, and what it calls them.
SHOWN = {
    "slope": "T^p: ρ with place",
    "wavelength": "T^pp: wavelength (places)",
    "crest": "highest T^pp (places before the query)",
    "near": "attention on the nearest ten",
    "wave left": "a key one wave ago, over the best near one",
}
#: How the page writes them: shares in percent.
SHOWN_FORMATS = {
    SHOWN["slope"]: "{:.2f}",
    SHOWN["wavelength"]: "{:.0f}",
    SHOWN["crest"]: "{:.0f}",
    SHOWN["near"]: "{:.0%}",
    SHOWN["wave left"]: "{:.0%}",
}


def rising(
    curves: Float[np.ndarray, "*curve position"], queries: Sequence[int]
) -> list[Float[np.ndarray, "*curve"]]:
    """Of each curve, the share of rising steps up to each query."""
    return [rising_steps(curves, query) for query in queries]


#: From here on the variances of GPT-2's positions are level (chapter 7).
LEVEL_FROM = 22


def steps_and_line(bias: PositionBias) -> pd.DataFrame:
    """Whether T^p rises step by step, and how straight it is; a row a head.

    Columns 'up to i', the share of rising steps up to each of `bias.queries`; 'falls by' and
    'lowest at', from place 1 to the lowest place, over √d_head; 'straight', R² of a line from
    `LEVEL_FROM` on.
    """
    asserted = bias.term_p().mean
    seen = asserted[:, 1:-1]
    lowest = 1 + seen.argmin(axis=1)
    steps = rising(asserted, bias.queries)
    columns = {f"up to {i}": share for i, share in zip(bias.queries, steps, strict=True)}
    return pd.DataFrame(
        {
            **columns,
            "lowest at": lowest,
            "falls by": (seen[:, 0] - seen.min(axis=1)) / bias.scale,
            "straight": straight_after(asserted, LEVEL_FROM),
        },
        index=pd.RangeIndex(bias.n_heads, name="head"),
    )


def scores_of_wave(bias: PositionBias, head: int, row: int) -> Float[np.ndarray, "key"]:
    """T^pp of one of `bias.queries` over the keys that it sees, position 0 left out.

    Not divided by the scale, as in the paper.
    """
    return bias.term_pp().mean[head, row, 1 : bias.queries[row] + 1]


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
    """How far T^pp/√d_head of the last of `bias.queries` rises over the keys that it sees.

    Position 0 is left out.
    """
    seen = slice(1, bias.queries[-1] + 1) if bias.causal else slice(1, None)
    return np.ptp(bias.term_pp().mean[:, -1, seen], axis=-1) / bias.scale


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
    length = queries[-1] + 1
    windows, _ = samples.sample_windows(first, length)
    articles = samples.sample_articles(first, length)
    measured = measured_attention(folded, first.embeddings, windows, queries, terms, articles)
    return OnText(terms, measured, compare_with_position_only(measured, terms))


class RandomHeads(NamedTuple):
    """In how many heads of each draw of random ones there is what K6 and K7 look for, by draw."""

    slopes: list[int]
    waves: list[int]
    near: list[int]


def of_random_heads(model: str = "gpt2 (frozen)") -> RandomHeads:
    """GPT-2's positions, and the weights of each head in random order: frozen null models."""
    slope = claim("K6").rule["spearman"]
    at = claim("K7").rule
    of_k7 = frozen_nulls("K7")[model]
    return RandomHeads(
        slopes=[
            int((drawn["spearman"].value > slope).sum()) for drawn in frozen_nulls("K6")[model]
        ],
        waves=[
            int(((drawn["cycles"].low >= at["cycles"]) & (drawn["wave"].low > at["share"])).sum())
            for drawn in of_k7
        ],
        near=[int((drawn["near"].value > at["percentile"]).sum()) for drawn in of_k7],
    )


def checks(
    by_hand: float,
    seven: OneHead,
    heads: pd.DataFrame,
    position: PositionOnly,
    bias: PositionBias,
    looking_near: Mapping[float, Sequence[int]],
    on_text: OnText,
) -> Iterator[Check]:
    """What the page says of its numbers; of GPT-2's, but for those of `on_text`.

    by_hand: largest difference of the page's attention from the package's; seven: head 7 and query
    1000; heads: as the function gives it, of `position` and `bias`; looking_near: heads that put
    more than half on the nearest ten, by how many times the variance of tokens.
    """
    steps = steps_and_line(bias)
    highest = crest(seven)
    falls = falls_over_nearest(seven)
    of_waves = waves(heads, claim("K8").rule["near"])
    spans = heights(bias)
    of_head_1 = scores_of_wave(bias, head=1, row=-1)
    near = heads["near"]
    nearest = near[[3, 4, 7]]
    middling = near.drop([3, 4, 5, 7, 11])
    both = heads["is wave"] & (heads["slope"] > 0)
    up_to = steps[["up to 50", "up to 500", "up to 1000"]]
    falling = 49 * (1 - up_to["up to 50"])
    eleven = heads.index != 5
    high = np.isin(np.arange(len(spans)), [3, 4, 7])

    yield says(
        "In eleven of its twelve heads", (len(both), both.sum()) == (12, 11), found=both.sum()
    )
    yield says("three look near", (near > 1 / 2).sum() == 3, found=(near > 1 / 2).sum())
    first_steps = rising_steps(bias.term_p().mean, 10)
    yield says("the slope first runs down", first_steps == 0, found=first_steps)
    yield says("Another head…query 50 or 500", by_hand < 1e-6, 50, 500)
    yield says("some 350 keys before it", round(highest.before, -1))
    yield says("there even a little higher", highest.wave_higher > 0, found=highest.wave_higher)
    yield says("it is lower by 16", highest.slope_lower)
    yield says("the wave falls off faster", falls.wave > 3 * falls.slope, found=[*falls])
    yield says("rise in trend, in every head but 5", heads["slope"][eleven] > 0.97, 5)
    yield says(
        "Up to i = 50 the slope of head 7 falls at 48 of 49 steps", 50, 7, round(falling[7], 9), 49
    )
    yield says(
        "in no head do nine steps in ten rise, up to query 50, 500 or 1000",
        bias.queries,
        (up_to < 0.9).to_numpy(),
    )
    yield says(
        "by its lowest place, 84, head 7 has lost 7.1",
        steps["lowest at"][7],
        7,
        steps["falls by"][7],
    )
    yield says("with an R² of .97 and more", 0.97, (steps["straight"] >= 0.97).sum() == 11)
    yield says("waves of about 540 positions", round(of_waves.wavelength, -1))
    random = of_random_heads()
    yield says("a wave that heads of random weights have as well", min(random.waves) > 6)
    yield says(
        "8 to 12 of the twelve heads have one, in 20 draws",
        min(random.waves),
        max(random.waves),
        len(random.waves),
        len(heads) == 12,
    )
    yield says("at most 1 random head in a draw has", max(random.slopes))
    yield says("high scores for near keys, which at most 4 have", max(random.near))
    yield says(
        "Random heads have the wave, too, and hardly ever the slope",
        np.mean(random.slopes) < 0.5,
        found=np.mean(random.slopes),
    )
    yield says("head 5 has a bend", 5, heads["waves"][5] < 1, found=heads["waves"][5])
    yield says(
        "In heads 3, 4 and 7 they are six times as high as elsewhere, and more",
        (3, 4, 7),
        spans[high].min() > 6 * spans[~high].max(),
        found=spans[high].min() / spans[~high].max(),
    )
    yield says(
        "In every head but 11 near keys score higher than most of the far ones",
        11,
        heads["near beats far"].drop(11) > 0.84,
        heads["near beats far"][11] < 0.5,
    )
    yield says("only in heads 0, 1, 9 and 10", of_waves.at_query)
    yield says(
        "In six others, head 7 among them", len(of_waves.wave_ago) == 6, 7 in of_waves.wave_ago, 7
    )
    yield says(
        "they run from −17 to 12 for query 1000", of_head_1.min(), of_head_1.max(), bias.queries[-1]
    )
    yield says("less than 2 % as much", position.last.ratio.max())
    yield says(
        "3, 4 and 7 put more than 93 % of their attention by position",
        nearest.index,
        nearest.min(),
        near.drop(nearest.index) < 0.93,
    )
    yield says(
        "more than half with the tokens' variance halved or doubled",
        [list(few) == [3, 4, 7] for few in looking_near.values()],
    )
    yield says("put 17 to 28 % there", middling.min(), middling.max())
    yield says("Heads 5 and 11 look elsewhere", near[[5, 11]].index, near[[5, 11]] < 0.02)
    yield says("a key one wave ago gets less than 3 %", heads["wave left"].drop([5, 11]).max())
    average = on_text.comparison["skill"]
    single = on_text.comparison["skill, one text"]
    middle = single.median()
    yield says("explains more than 90 % in every head", average.min())
    yield says("explains between 38 and 81 %", single.min(), single.max())
    yield says("the median head about half", 0.43 < middle < 0.53, found=middle)
