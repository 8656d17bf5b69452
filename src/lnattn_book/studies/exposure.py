"""Are the words that decide a sentence's sentiment unselectable more often than others? (B11)

Which words decide is read off the training labels, not off the paper's examples; they are compared
with words as frequent that decide nothing, and models of several seeds are averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import norm

from lnattn.errors import ResultError
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.unselectable_words import Sentiment


@dataclass(frozen=True)
class Exposure:
    """How much more often deciding words are unselectable than neutral ones as frequent.

    difference: of shares of occurrences, mean over bins of frequency (weighted by the deciding
    words in them) and seeds; low, high: its 95 % interval, by Student's t over seeds, and a
    bootstrap over words; p: share of deals of the words within bins whose difference is as large in
    size or larger; rates: of deciding and of neutral words; types: how many of either.
    """

    difference: float
    low: float
    high: float
    p: float
    rates: tuple[float, float]
    types: tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Bin:
    """Words about as frequent as one another, some deciding and some neutral.

    occurrences: of each word among the sentences judged; unselectable: how many of them, by seed.
    """

    occurrences: Int[np.ndarray, "type"]
    unselectable: Int[np.ndarray, "type seed"]
    decides: Bool[np.ndarray, "type"]

    @property
    def deciding_occurrences(self) -> int:
        """How often its deciding words occur."""
        return int(self.occurrences[self.decides].sum())

    def rate(self, weights: Float[np.ndarray, "draw type"]) -> Float[np.ndarray, "draw seed"]:
        """The share of unselectable occurrences among words with these weights."""
        occurrences = np.maximum(weights @ self.occurrences, 1e-12)
        return (weights @ self.unselectable) / occurrences[:, None]

    def rates(self) -> Float[np.ndarray, "kind seed"]:
        """The share of deciding words, and that of neutral ones."""
        return self.rate(np.stack([self.decides, ~self.decides]).astype(float))

    def dealt(self, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "draw"]:
        """Differences, mean over seeds, where chance says which words are the deciding ones."""
        places = np.argsort(rng.random((draws, len(self.decides))), axis=1)
        decides = places < self.decides.sum()
        deciding_rate = self.rate(decides.astype(float)).mean(axis=1)
        neutral_rate = self.rate((~decides).astype(float)).mean(axis=1)
        return deciding_rate - neutral_rate

    def resampled(self, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "draw"]:
        """Differences, mean over seeds, of as many words of each kind, drawn with replacement."""
        deciding_rate = self.rate(_drawn_again(self.decides, draws, rng)).mean(axis=1)
        neutral_rate = self.rate(_drawn_again(~self.decides, draws, rng)).mean(axis=1)
        return deciding_rate - neutral_rate


def exposure(
    sentiment: Sentiment,
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
    weight = np.abs(sentiment.weight())
    deciding = weight >= decides
    judged = (sentiment.count >= least) & (deciding | (weight < neutral))
    bins = _bins(sentiment, arm, judged, deciding)
    if not bins:
        raise ResultError("no bin of frequency has both deciding and neutral words.")
    sizes = np.array([words.deciding_occurrences for words in bins])
    shares = sizes / sizes.sum()
    seeds = bins[0].unselectable.shape[1]
    rng = np.random.default_rng(seed)
    rates = np.zeros((2, seeds))
    dealt = np.zeros(draws)
    resampled = np.zeros(draws)
    for words, share in zip(bins, shares, strict=True):
        rates += share * words.rates()
        dealt += share * words.dealt(draws, rng)
        resampled += share * words.resampled(draws, rng)
    of_seeds = rates[0] - rates[1]
    difference = float(of_seeds.mean())
    of_words = np.quantile(resampled, (0.025, 0.975))
    interval = over_seeds_too(of_seeds, *of_words)
    as_large = int((np.abs(dealt) >= abs(difference) - 1e-12).sum())
    return Exposure(
        difference=difference,
        low=interval[0],
        high=interval[1],
        p=(1 + as_large) / (1 + draws),
        rates=(float(rates[0].mean()), float(rates[1].mean())),
        types=(
            sum(int(words.decides.sum()) for words in bins),
            sum(int((~words.decides).sum()) for words in bins),
        ),
    )


def _bins(
    sentiment: Sentiment,
    arm: str,
    judged: Bool[np.ndarray, "type"],
    deciding: Bool[np.ndarray, "type"],
) -> list[_Bin]:
    """The judged words that occur, by the power of two below their count; bins of one kind go."""
    marks = sentiment.unselectable[sentiment.of(arm)]
    known = sentiment.type >= 0
    types = len(sentiment.count)
    occurrences = np.bincount(sentiment.type[known], minlength=types)
    unselectable = np.stack(
        [np.bincount(sentiment.type[known & of_seed], minlength=types) for of_seed in marks], axis=1
    )
    judged = judged & (occurrences > 0)
    powers = np.log2(np.maximum(sentiment.count, 1)).astype(int)
    bins = []
    for power in np.unique(powers[judged]):
        types_of_bin = np.flatnonzero(judged & (powers == power))
        decides = deciding[types_of_bin]
        if decides.any() and not decides.all():
            bins.append(_Bin(occurrences[types_of_bin], unselectable[types_of_bin], decides))
    return bins


def _drawn_again(
    kind: Bool[np.ndarray, "type"], draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw type"]:
    """How often each type of a kind is drawn, of as many draws as there are, with replacement."""
    return rng.multinomial(int(kind.sum()), kind / kind.sum(), size=draws).astype(float)


def lead(sentiment: Sentiment, arm: str, other: str) -> tuple[float, float, float]:
    """How much larger an arm's share of right answers is, mean over seeds, with its 95 % interval.

    By Student's t over seeds and the normal law over sentences, which are many; arms share both.
    """
    right = sentiment.right.astype(float)
    gain = right[sentiment.of(arm)] - right[sentiment.of(other)]
    mean = float(gain.mean())
    of_sentences = gain.mean(axis=0)
    half = float(norm.ppf(0.975) * of_sentences.std(ddof=1) / len(of_sentences) ** 0.5)
    return (mean, *over_seeds_too(gain.mean(axis=1), mean - half, mean + half))


def over_seeds_too(
    of_seeds: Float[np.ndarray, "seed"], low: float, high: float
) -> tuple[float, float]:
    """The interval of a mean over seeds that are themselves few draws of many.

    of_seeds: the number in each seed; low, high: the interval of their mean with the seeds as they
    are. Distances from the mean are put together as those of two independent errors are, that over
    seeds by Student's t: a bootstrap of five seeds is too narrow.

    >>> over_seeds_too(np.array([1.0, 1.0, 1.0]), 0.5, 1.5)
    (0.5, 1.5)
    """
    mean, least, most = mean_and_interval(of_seeds)
    return mean - math.hypot(mean - least, mean - low), mean + math.hypot(most - mean, high - mean)
