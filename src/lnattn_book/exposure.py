"""Are the words that decide a sentence's sentiment unselectable more often than others? (B11)

Which words decide is read off the training labels, not off the paper's examples; they are compared
with words as frequent that decide nothing, and models of several seeds are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lnattn.errors import ResultError
from lnattn_book.words import Sentiment


@dataclass(frozen=True)
class Exposure:
    """How much more often deciding words are unselectable than neutral ones as frequent.

    difference: of shares of occurrences, mean over bins of frequency (weighted by the deciding
    words in them) and seeds; low, high: 95 % bootstrap interval over words and seeds; p: share of
    deals of the words within bins whose difference is as large in size or larger; rates: of
    deciding and of neutral words; types: how many of either.
    """

    difference: float
    low: float
    high: float
    p: float
    rates: tuple[float, float]
    types: tuple[int, int]


def exposure(
    found: Sentiment,
    arm: str,
    *,
    least: int,
    decides: float,
    neutral: float,
    draws: int = 10_000,
    seed: int = 0,
) -> Exposure:
    """Compare deciding words with neutral ones in bins of doubling frequency.

    least: training sentences that a word must occur in; decides, neutral: standard errors from
    which on, and up to which, a word's share of positive sentences is off that of all sentences.
    Raises `ResultError` where no bin has words of both kinds.
    """
    lost = found.unselectable[found.of(arm)]
    known = found.type >= 0
    types = len(found.count)
    n = np.bincount(found.type[known], minlength=types)
    u = np.stack([np.bincount(found.type[known & one], minlength=types) for one in lost], axis=1)
    weight = np.abs(found.weight())
    asked = (n > 0) & (found.count >= least) & ((weight >= decides) | (weight < neutral))
    flags = weight >= decides
    bins = np.log2(np.maximum(found.count, 1)).astype(int)
    groups = [np.flatnonzero(asked & (bins == b)) for b in np.unique(bins[asked])]
    groups = [group for group in groups if 0 < flags[group].sum() < len(group)]
    if not groups:
        raise ResultError("no bin of frequency has both deciding and neutral words.")
    rng = np.random.default_rng(seed)
    size = np.array([n[group[flags[group]]].sum() for group in groups])
    share = size / size.sum()
    rates = np.zeros((2, lost.shape[0]))
    dealt = np.zeros(draws)
    drawn = np.zeros(draws)
    picks = rng.multinomial(len(lost), np.full(len(lost), 1 / len(lost)), size=draws) / len(lost)
    for group, part in zip(groups, share, strict=True):
        own = flags[group]
        among = (n[group], u[group])
        kinds = [_rate(np.where(kind, 1.0, 0.0)[None], *among)[0] for kind in (own, ~own)]
        rates += part * np.stack(kinds)
        deals = np.argsort(rng.random((draws, len(group))), axis=1) < own.sum()
        of_deal = [_rate(kind.astype(float), *among).mean(axis=1) for kind in (deals, ~deals)]
        dealt += part * (of_deal[0] - of_deal[1])
        again = [_rate(_resampled(kind, draws, rng), *among) for kind in (own, ~own)]
        drawn += part * ((again[0] - again[1]) * picks).sum(axis=1)
    difference = float((rates[0] - rates[1]).mean())
    low, high = np.quantile(drawn, (0.025, 0.975))
    deciding = flags[np.concatenate(groups)]
    extreme = int((np.abs(dealt) >= abs(difference) - 1e-12).sum())
    return Exposure(
        difference=difference,
        low=float(low),
        high=float(high),
        p=(1 + extreme) / (1 + draws),
        rates=(float(rates[0].mean()), float(rates[1].mean())),
        types=(int(deciding.sum()), int((~deciding).sum())),
    )


def _rate(
    weights: Float[np.ndarray, "draw type"],
    n: Int[np.ndarray, "type"],
    u: Int[np.ndarray, "type seed"],
) -> Float[np.ndarray, "draw seed"]:
    """The share of unselectable occurrences among types with these weights."""
    return (weights @ u) / np.maximum(weights @ n, 1e-12)[:, None]


def _resampled(
    kind: Bool[np.ndarray, "type"], draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw type"]:
    """How often each type of a kind is drawn, of as many draws as there are, with replacement."""
    return rng.multinomial(int(kind.sum()), kind / kind.sum(), size=draws).astype(float)


def lead(
    found: Sentiment, arm: str, other: str, *, draws: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """How much larger an arm's share of right answers is, mean over seeds, with an interval.

    95 % percentile bootstrap over sentences and seeds; arms share both.
    """
    gain = found.right[found.of(arm)].astype(float) - found.right[found.of(other)]
    seeds, sentences = gain.shape
    rng = np.random.default_rng(seed)
    # Sentences with the same gains, by seed, are alike to a bootstrap: it draws how many of each.
    kinds, counts = np.unique(gain, axis=1, return_counts=True)
    drawn = rng.multinomial(sentences, counts / sentences, size=draws) / sentences
    runs = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds
    low, high = np.quantile(((drawn @ kinds.T) * runs).sum(axis=1), (0.025, 0.975))
    return float(gain.mean()), float(low), float(high)
