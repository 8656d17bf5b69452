"""What a token's length knows: how far σ evens lengths out, and who knows a word's neighbours.

Norms are of the embeddings as they are, as in Kamoda et al. 2025 (§6.3); either σ divides them,
that of the embedding alone and that of the layer's input (`lnattn_book.chapters.variance.lengths`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lnattn.attention.folding import fold
from lnattn.attention.layernorm import layer_norm
from lnattn.stats import Correlation, resampled_counts, spearman
from lnattn.weights import FirstLayer
from lnattn_book.chapters.variance import (
    Frequency,
    correlations_of_shuffled_heads,
    lengths,
)
from lnattn_book.claims.intervals import Interval
from lnattn_book.page import Check, says
from lnattn_book.studies import samples
from lnattn_book.studies.variance import information_gain

#: Tokens that occur less often have too few successors to tell how informative they are.
SELDOM = 100
#: Texts whose value vectors are measured.
TEXTS = 20


class Left(NamedTuple):
    """The share of the spread of norms that a division leaves, with an interval over tokens."""

    own: Interval
    layer: Interval


def spread_left(first: FirstLayer, known: Frequency, draws: int = 200) -> Left:
    """Coefficient of variation of norms after the division over before, for either σ (K18).

    Intervals are 95 % percentiles over draws of tokens, the same for both.
    """
    by_division = lengths(first, known.inputs, centred=False)
    before = by_division["before"]
    token_sigma = by_division["own σ"]
    layer = by_division["σ of the layer"]
    return Left(*(_ratio_of_spreads(after, before, draws) for after in (token_sigma, layer)))


def _ratio_of_spreads(
    after: Float[np.ndarray, "token"], before: Float[np.ndarray, "token"], draws: int
) -> Interval:
    moments = np.stack([before, after, before**2, after**2], axis=1)
    drawn = _from_moments(resampled_counts(len(before), draws) @ moments / len(before))
    (value,) = _from_moments(moments.mean(axis=0, keepdims=True))
    return Interval(value, *np.quantile(drawn, (0.025, 0.975)))


def _from_moments(means: Float[np.ndarray, "draw 4"]) -> Float[np.ndarray, "draw"]:
    """Coefficient of variation after over before, from means of both and of their squares."""
    squared = np.maximum(means[..., 2:] / means[..., :2] ** 2 - 1, 0)
    # Norms that were alike from the start have no spread of which something could be left.
    before = np.where(squared[..., 0] > 1e-12, squared[..., 0], np.nan)
    return np.sqrt(squared[..., 1] / before)


class Gain(NamedTuple):
    """Information gain of the tokens that occur `SELDOM` times or more, and their ids: [token]."""

    tokens: Int[np.ndarray, "token"]
    gain: Float[np.ndarray, "token"]


@cache
def gain_of_tokens(first: FirstLayer) -> Gain:
    """How much each token tells about its successor, by the counts that come with the book.

    Permuting millions of pairs takes seconds, so a model's gain is kept while the chapter runs.
    """
    counts, _ = samples.token_counts(first)
    often = np.flatnonzero(counts.unigrams >= SELDOM)
    return Gain(often, information_gain(counts.bigrams)[often])


def who_knows_the_gain(first: FirstLayer, known: Frequency, gain: Gain) -> dict[str, Correlation]:
    """Rank correlations with the gain: of norms, of the count, and of T^e in every head.

    Norms as they are, and divided by either σ.
    """
    by_division = lengths(first, known.inputs, centred=False)
    rows = {
        "norm": by_division["before"],
        "norm / own σ": by_division["own σ"],
        "norm / σ of the layer": by_division["σ of the layer"],
        "count": known.counts,
    }
    asserted = (fold(first.attention).b_QK @ first.embeddings.tokens().T).double().numpy()
    if asserted.any():  # without biases there is no T^e
        for head, values in enumerate(asserted / known.inputs.mean_sigma):
            rows[f"T^e, head {head}"] = values
    return {name: spearman(values[gain.tokens], gain.gain) for name, values in rows.items()}


def of_heads(knowing: dict[str, Correlation]) -> list[Correlation]:
    """The correlations of T^e, head by head, among those of `who_knows_the_gain`."""
    return [correlation for name, correlation in knowing.items() if name.startswith("T^e")]


def best_shuffled_head(
    first: FirstLayer, known: Frequency, gain: Gain, deals: int = 60
) -> Float[np.ndarray, "deal"]:
    """The largest |ρ| of T^e with the gain in layers that learnt nothing, embeddings kept."""
    correlations = correlations_of_shuffled_heads(
        first, known.inputs, gain.tokens, gain.gain, deals
    )
    return correlations.max(axis=1)


def table(known: dict[str, Correlation]) -> pd.DataFrame:
    """Rank correlations with their intervals, a row each."""
    rows = {
        name: (correlation.rho, correlation.low, correlation.high)
        for name, correlation in known.items()
    }
    return pd.DataFrame(rows, index=["ρ", "low", "high"]).T


class ValueLengths(NamedTuple):
    """Lengths of value vectors: of the first token, and the mean of the others, [text head]."""

    first: Float[np.ndarray, "text head"]
    others: Float[np.ndarray, "text head"]

    def times_shorter(self) -> Float[np.ndarray, "head"]:
        """How many times shorter the first token's is than the others', by means over texts."""
        return self.others.mean(axis=0) / self.first.mean(axis=0)


def lengths_in_texts(
    first: FirstLayer, texts: int = TEXTS
) -> list[Float[np.ndarray, "head token"]]:
    """Lengths of value vectors of the first layer in some of the book's texts (K21)."""
    layer = first.attention
    lengths = []
    for ids in samples.sample_framed(first)[:texts]:
        inputs = first.embeddings.tokens()[ids] + first.embeddings.W_P[: len(ids)]
        values = layer_norm(inputs, layer.ln) @ layer.W_V + layer.b_V[:, None]  # [head token value]
        lengths.append(values.norm(dim=-1).double().numpy())
    return lengths


def value_lengths(first: FirstLayer, texts: int = TEXTS) -> ValueLengths:
    """The same of the first token, and in the mean of the others."""
    lengths = lengths_in_texts(first, texts)
    elsewhere = [of_text[:, 1:].mean(axis=1) for of_text in lengths]
    return ValueLengths(np.stack([of_text[:, 0] for of_text in lengths]), np.stack(elsewhere))


def checks(
    left: Left,
    gain: Gain,
    rho: dict[str, float],
    shuffled: Float[np.ndarray, "deal"],
    times: Float[np.ndarray, "head"],
) -> Iterator[Check]:
    """What the page says of its numbers.

    rho: rank correlations with the gain; shuffled: the best of each shuffled layer; times: how many
    times shorter the first token's value vector is.
    """
    left_by_layer = left.layer.value
    know_more = float((shuffled > abs(rho["norm"])).mean())
    best = abs(rho["T^e, head 5"])
    others = np.delete(times, 2)
    yield says("9 % of the spread is left", left.own.value)
    yield says("half of the spread is left", 0.49 < left_by_layer < 0.52, found=left_by_layer)
    yield says("Over some 8,000 tokens", round(len(gain.tokens), -3))
    yield says(
        "−.19 with the gain, −.16 after division by its own σ and −.13 after",
        rho["norm"],
        rho["norm / own σ"],
        rho["norm / σ of the layer"],
    )
    yield says(
        "of head 5 has one of .51, and that of head 6 one of .32",
        [5, rho["T^e, head 5"]],
        [6, abs(rho["T^e, head 6"])],
    )
    yield says("next to no correlation", abs(rho["count"]) < 0.05, found=rho["count"])
    yield says("most layers have a head that knows more", know_more > 0.5, found=know_more)
    yield says("No shuffled layer comes near head 5", 5, shuffled < best - 0.03)
    yield says(
        "Between one and 2.2 in all heads but head 2, where it is longer",
        max(others),
        np.flatnonzero(np.asarray(times) < 1),
        others > 1,
    )
