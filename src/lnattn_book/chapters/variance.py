"""What σ does to the first position and to rare words: its switch, its sinks, what it leaves.

Variances are over the coordinates of one vector, as LayerNorm takes them. GPT-2 is asked by place
alone (`lnattn_book.studies.by_place`), models with token embeddings on the book's texts and counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from scipy.stats import rankdata

from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.position.sigma import variances
from lnattn.position.without_tokens import PositionOnly
from lnattn.stats import spearman
from lnattn.weights import FirstLayer, require_absolute
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.claims.survey import SWITCH_WINDOW
from lnattn_book.page import Check, says
from lnattn_book.studies import samples
from lnattn_book.studies.by_place import GPT2_SIGMA, ByPlace
from lnattn_book.studies.first_token import FirstTokenSwitch, first_token_switch
from lnattn_book.studies.variance import (
    FrequencyStudy,
    VarianceOfInputs,
    frequency_study,
    variance_of_inputs,
)

# ---- Places -------------------------------------------------------------------------------------


class Plateau(NamedTuple):
    """How position variances depart from a step: the first over the median, and the level part.

    first: Var(p_0) over the median; level_from: the first position within a tenth of the median;
    share: of all positions, how many are within a tenth of it; last: Var of the last over the
    median.
    """

    first: float
    level_from: int
    share: float
    last: float


def plateau(variance: Float[np.ndarray, "position"]) -> Plateau:
    """Where position variances are level; Kamoda et al. 2025 call them a step function (§6.4)."""
    relative = variance / np.median(variance)
    level = np.abs(relative - 1) < 1 / 10
    return Plateau(
        float(relative[0]), int(level.argmax()), float(level.mean()), float(relative[-1])
    )


class OfSigma(NamedTuple):
    """Which part of the published σ the position embedding alone makes."""

    first: float
    elsewhere: float


def made_by_position(variance: Float[np.ndarray, "position"]) -> OfSigma:
    """At position 0 and in the median of GPT-2's positions."""
    return OfSigma(
        float(variance[0] ** 0.5 / GPT2_SIGMA.first),
        float(np.median(variance) ** 0.5 / GPT2_SIGMA.elsewhere),
    )


def off_the_published(place: ByPlace) -> float:
    """By which part σ_0 by the formula, with an ordinary token, exceeds the published one."""
    return float(place.sigma[0] / GPT2_SIGMA.first - 1)


def position_variances(first: FirstLayer) -> Float[np.ndarray, "position"]:
    """Var(p_j) of a model's position embeddings, in double precision."""
    return variances(require_absolute(first).embeddings.W_P.double()).numpy()


def against_even(
    attention: Float[np.ndarray, "*head query"],
) -> Float[np.ndarray, "*head query"]:
    """Attention on position 0 of queries 1, 2, … as a multiple of even attention over the keys."""
    keys = np.arange(attention.shape[-1]) + 2  # query 1 sees two keys
    return attention * keys


def sinks(attention: Float[np.ndarray, "head query"]) -> pd.DataFrame:
    """Whether heads have a sink at position 0 in short contexts, and what is left in long ones.

    attention: on position 0, of queries 1, 2, …. One row a head: 'short' and 'long', attention
    against even, means over the first and the last quarter of the queries; 'sink', whether 'short'
    is above even; 'left', long over short; 'halved', whether less than half is left; 'fades',
    whether there is a sink and it is halved.
    """
    even = against_even(attention)
    quarter = max(even.shape[-1] // 4, 1)
    short = even[:, :quarter].mean(axis=-1)
    long = even[:, -quarter:].mean(axis=-1)
    table = pd.DataFrame({"short": short, "long": long, "left": long / short})
    table["sink"] = table["short"] > 1
    table["halved"] = table["left"] < 1 / 2
    table["fades"] = table["sink"] & table["halved"]
    return table.rename_axis("head")


def switch_by_head(place: ByPlace, scale: float) -> pd.DataFrame:
    """One row a head of a model by place alone: what the large σ_0 does to attention on position 0.

    'score' is T^p at position 0 over √d_head (scale); 'times' attention on position 0, in the mean
    of all later queries, over what it is with the median σ in place of σ_0; 'switch' whether the
    score is negative and that ratio above what claim K15 asks.
    """
    gain = claim("K15").rule["gain"]
    times = place.own.mean(axis=1) / place.ordinary.mean(axis=1)
    table = pd.DataFrame(
        {
            "score": place.score / scale / place.sigma[0],
            "times": times,
            "switch": (place.score < 0) & (times > gain),
        }
    )
    return table.rename_axis("head")


def switches_in_draws(draws: Sequence[Mapping[str, Interval]]) -> list[int]:
    """In how many heads of each draw of K15's null model there is a switch, by its two conditions.

    draws: as `lnattn_book.claims.nulls.frozen_nulls` reads them, a value a head.
    """
    gain = claim("K15").rule["gain"]
    return [
        int(((drawn["score"].value < 0) & (drawn["amplification"].value > gain)).sum())
        for drawn in draws
    ]


def switch_on_text(first: FirstLayer) -> FirstTokenSwitch:
    """The counterfactual on the book's sample of text, in windows of at most 256 tokens."""
    length = min(require_absolute(first).embeddings.n_positions, SWITCH_WINDOW)
    windows, _ = samples.sample_windows(first, length)
    return first_token_switch(fold(first.attention), first.embeddings, windows)


# ---- Words --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Frequency:
    """Variances at a model's input, and what they and T^e know of a token's count.

    counted: how many tokens of text the counts are of; counts: of each token, [vocab].
    """

    inputs: VarianceOfInputs
    counts: Int[np.ndarray, "vocab"]
    counted: int
    study: FrequencyStudy


def frequency(first: FirstLayer) -> Frequency:
    """Relate a model's variances and T^e to the counts that come with the book (K11, K12)."""
    folded = fold(require_absolute(first).attention)
    inputs = variance_of_inputs(first.embeddings, folded.eps)
    counts, _ = samples.token_counts(first)
    study = frequency_study(folded, first.embeddings, inputs, counts.unigrams)
    return Frequency(inputs, counts.unigrams, counts.tokens, study)


def shuffled_heads(
    first: FirstLayer, known: Frequency, deals: int = 60
) -> Float[np.ndarray, "deal head"]:
    """|ρ| of T^e with the count in heads that learnt nothing: embeddings kept, heads shuffled.

    What such heads reach, an embedding shows to whoever reads it in some direction.
    """
    tokens = known.study.tokens
    return correlations_of_shuffled_heads(first, known.inputs, tokens, known.study.counts, deals)


def correlations_of_shuffled_heads(
    first: FirstLayer,
    inputs: VarianceOfInputs,
    tokens: Int[np.ndarray, "token"],
    target: Shaped[np.ndarray, "token"],
    deals: int = 60,
) -> Float[np.ndarray, "deal head"]:
    """|ρ| of T^e with a property of some tokens, in heads whose weights are in random order."""
    rows = first.embeddings.tokens()[tokens].double().numpy() / inputs.mean_sigma[tokens, None]
    ranks = rankdata(target)
    correlations = np.empty((deals, first.attention.W_Q.shape[0]))
    for deal in range(deals):
        attention = permuted_weights(first, deal, heads_only=True).attention
        asserted = rows @ fold(attention).b_QK.double().numpy().T
        for head, column in enumerate(asserted.T):
            correlations[deal, head] = abs(np.corrcoef(rankdata(column), ranks)[0, 1])
    return correlations


class Chance(NamedTuple):
    """What heads with shuffled weights reach in |ρ|, in one of twenty cases.

    head: one of twenty heads has more; strongest: the strongest of a layer's heads has more in one
    of twenty layers.
    """

    head: float
    strongest: float


def chance(shuffled: Float[np.ndarray, "deal head"]) -> Chance:
    """The 95 % quantiles of `shuffled_heads`, over heads and over the best of each deal."""
    return Chance(
        float(np.quantile(shuffled, 0.95)), float(np.quantile(shuffled.max(axis=1), 0.95))
    )


def lengths(
    first: FirstLayer, known: VarianceOfInputs, centred: bool = True
) -> dict[str, Float[np.ndarray, "token"]]:
    """Lengths of token embeddings, before division and after either σ.

    'before'; 'own σ', divided by σ(e), as if LayerNorm were applied to the embedding alone; 'σ of
    the layer', by the mean over positions of σ(e + p), by which the layer does divide. centred:
    without the mean of the coordinates, which LayerNorm takes out as well.
    """
    before = (
        np.sqrt(known.token * first.embeddings.d_model)
        if centred
        else first.embeddings.tokens().double().norm(dim=1).numpy()
    )
    token_sigma = np.sqrt(known.token + first.attention.ln.eps)
    return {
        "before": before,
        "own σ": before / token_sigma,
        "σ of the layer": before / known.mean_sigma,
    }


def spread(lengths: Float[np.ndarray, "token"]) -> float:
    """Coefficient of variation: standard deviation over mean, which no unit changes."""
    return float(lengths.std() / lengths.mean())


def what_division_leaves(first: FirstLayer, known: Frequency) -> pd.DataFrame:
    """Centred lengths before and after division by either σ: how they spread, what they know.

    'spread' is the coefficient of variation over all tokens, 'left' that over the one before,
    'knows frequency' the rank correlation with the count of the tokens that occur (NaN where the
    lengths are equal but for ε).
    """
    rows = {}
    occurs = known.study.tokens
    by_division = lengths(first, known.inputs)
    for name, values in by_division.items():
        equal = np.ptp(values) < 1e-2 * values.mean()
        rho = math.nan if equal else spearman(values[occurs], known.study.counts).rho
        rows[name] = {
            "spread": spread(values),
            "left": spread(values) / spread(by_division["before"]),
            "knows frequency": rho,
        }
    return pd.DataFrame(rows).T


# ---- What the page says -------------------------------------------------------------------------


def checks(
    gpt2: PositionOnly,
    place: ByPlace,
    shuffled: Sequence[int],
    text: FirstTokenSwitch,
    words: Mapping[str, Frequency],
    left: pd.DataFrame,
    chance: Chance,
) -> Iterator[Check]:
    """What the page says of its numbers.

    gpt2, place: position terms of GPT-2, and its attention on position 0; shuffled: in how many
    heads of each draw there is a switch; words: of book-gpt2 and of MiniLM; text, left, chance: of
    book-gpt2.
    """
    yield from _of_places(gpt2, place)
    yield from _of_the_switch(switch_by_head(place, gpt2.bias.scale), shuffled)
    yield from _of_sinks(sinks(place.own), sinks(place.ordinary))
    yield from _of_text(text)
    yield from _of_words(words["book-gpt2"], words["MiniLM"], left, chance)


def _of_places(gpt2: PositionOnly, place: ByPlace) -> Iterator[Check]:
    shape = plateau(gpt2.variance)
    shares = made_by_position(gpt2.variance)
    doubled = GPT2_SIGMA.first / GPT2_SIGMA.elsewhere
    yield says("about nine times the median", 8.4 < shape.first < 9.5, found=shape.first)
    yield says(
        "the plateau begins at about the twentieth",
        18 < shape.level_from < 24,
        shape.share > 0.9,
        found=shape.level_from,
    )
    yield says(
        "more than twice as large at position 0 as elsewhere", 0, 2 < doubled < 2.5, found=doubled
    )
    yield says(
        "position embedding alone makes 97 % of σ, elsewhere about three quarters",
        shares.first,
        0.72 < shares.elsewhere < 0.78,
        abs(off_the_published(place)) < 0.03,
    )


def _of_the_switch(table: pd.DataFrame, shuffled: Sequence[int]) -> Iterator[Check]:
    switched = table["switch"].sum()
    times = table["times"]
    yield says("The score is negative in 11 of 12 heads", (table["score"] < 0).sum(), len(table))
    yield says("raises attention on position 0 in 9 of 12 heads", 0, switched, len(table))
    yield says("15 times in head 7", times[7], 7)
    yield says("in 3 of 12 in the mean of 20 draws", np.mean(shuffled), len(table), len(shuffled))
    yield says("they reach 6 at most", max(shuffled))
    yield says(
        "more than in any of 20 draws of shuffled ones", len(shuffled), switched > max(shuffled)
    )
    yield says(
        "In GPT-2, by place alone, heads 4 and 10 do the same",
        table.index[(table["score"] < 0) & (times < 1)],
    )


def _of_sinks(own: pd.DataFrame, ordinary: pd.DataFrame) -> Iterator[Check]:
    faded = own[own["fades"]]
    yield says(
        "In seven heads position 0 gets more than even attention",
        0,
        own["sink"].sum() == 7,
        found=own["sink"].sum(),
    )
    yield says(
        "in five of them less than a twentieth of that is left",
        len(faded) == 5,
        faded["left"] < 1 / 20,
        found=faded["left"],
    )
    yield says("only heads 5 and 11 have a sink", ordinary.index[ordinary["sink"]])
    yield says("neither fades", ~ordinary["fades"])
    yield says("1.3 to 2.1 times even attention", faded["short"].min(), faded["short"].max())
    yield says("Head 7 has no sink", 7, not own["sink"][7])
    yield says(
        "the same ten heads with either σ",
        own["halved"] == ordinary["halved"],
        own["halved"].sum() == 10,
    )


def _of_text(text: FirstTokenSwitch) -> Iterator[Check]:
    own = text.true.mean(axis=(0, 2))
    ordinary = text.median.mean(axis=(0, 2))
    three = [0, 1, 3]
    raised = np.flatnonzero(text.amplification() > 1)
    yield says(
        "about two and a half times the median",
        2.5 < text.sigma_ratio < 2.75,
        found=text.sigma_ratio,
    )
    yield says("it draws attention in two heads", len(raised) == 2, len(own) == 8, found=raised)
    yield says("Heads 0, 1 and 3 have a positive score", three, text.score[three] > 0)
    yield says(
        "nearly half of their attention, with the large one they give it 7 %",
        np.abs(ordinary[three] - 0.45) < 0.05,
        own[three].max(),
        np.ptp(own[three]) < 0.01,
        found=ordinary[three],
    )


def _of_words(
    known: Frequency, minilm: Frequency, left: pd.DataFrame, chance: Chance
) -> Iterator[Check]:
    strengths = np.array([of_head.rho for of_head in known.study.head_correlations])
    divided = left.loc["σ of the layer"]
    yield says(
        "a rank correlation between variance and count of −.36",
        known.study.variance_correlation.rho,
    )
    yield says("variance rises with the count (+.68)", minilm.study.variance_correlation.rho)
    yield says("half of the spread of lengths survives", 0.45 < divided["left"] < 0.55)
    yield says("more closely than before, −.42", divided["knows frequency"])
    yield says("between −.26 and −.48", strengths.max(), strengths.min())
    passing = (np.abs(strengths) > chance.strongest).sum()
    yield says("five heads pass it", passing == 5, found=passing)
    yield says("one half, which none has here", np.abs(strengths) < 1 / 2)
