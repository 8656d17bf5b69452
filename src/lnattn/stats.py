"""Bootstrap, rank correlation, and the way through a vocabulary in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.stats import norm, spearmanr

from lnattn.errors import ResultError, ShapeError
from lnattn.inputs import real_number, whole_number


def blocks(n: int, width: int, most: int = 1 << 23) -> Iterator[slice]:
    """Slices that make up 0 … n − 1, each of at most `most` numbers where a row has `width`."""
    step = max(1, most // max(1, width))
    for begin in range(0, n, step):
        yield slice(begin, min(begin + step, n))


def resampled_counts(n: int, draws: int, seed: int = 0) -> Int[np.ndarray, "draw n"]:
    """How often each of n things is drawn when n are drawn with replacement, `draws` times.

    Multinomial weights of a bootstrap: quantities that are weighted by the same ones are paired.
    Raises `ResultError` for nothing to draw from, or no draw.
    """
    whole_number(n, "the number of things to draw from", error=ResultError)
    whole_number(draws, "draws", error=ResultError)
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)


def resampled_ratios(
    over: Shaped[np.ndarray, "n *what"],
    under: Shaped[np.ndarray, "n *what"],
    draws: int = 2000,
    seed: int = 0,
) -> Float[np.ndarray, "draw *what"]:
    """Sums of `over` over n things through sums of `under`, when the n are drawn anew.

    A thing's numerator and denominator are drawn together. Raises `ResultError` where the two are
    of different numbers of things.
    """
    if len(over) != len(under):
        raise ResultError(f"{len(over)} numerators cannot be paired with {len(under)}.")
    drawn = resampled_counts(len(over), draws, seed)
    return (drawn @ over) / (drawn @ under)


def bootstrap_means(
    values: Float[np.ndarray, "row n"], level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Float[np.ndarray, "row 3"]:
    """Mean of each row over n things, and its percentile interval: mean, low, high.

    All rows see the same draws, so that differences of rows are paired. level: of the interval,
    between 0 and 1; draws: resamples. Efron and Tibshirani (1993, ch. 13). Raises `ResultError` for
    another level, no draw, or nothing to draw from.
    """
    n = values.shape[1]
    whole_number(n, "the number of values a row", error=ResultError)
    whole_number(draws, "draws", error=ResultError)
    real_number(level, "level", 0, 1, open_ends=True, error=ResultError)
    rng = np.random.default_rng(seed)
    means = np.empty((draws, len(values)))
    for draw in range(draws):
        # How often each was drawn, so that a mean is a product and not a gather.
        means[draw] = values @ np.bincount(rng.integers(n, size=n), minlength=n) / n
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.stack([values.mean(axis=1), low, high], axis=1)


@dataclass(frozen=True)
class Correlation:
    """Spearman's ρ of n pairs and its confidence interval."""

    rho: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.rho:.3f} [{self.low:.3f}, {self.high:.3f}]"


def spearman(
    x: Shaped[np.ndarray, "n"], y: Shaped[np.ndarray, "n"], confidence: float = 0.95
) -> Correlation:
    """Spearman's ρ, ties sharing their mean rank; the interval is that of Bonett and Wright (2000).

    Pairs are taken as independent draws. Raises `ShapeError` for fewer than four pairs, unequal
    lengths, values that are not finite, a constant, or a confidence outside 0 … 1.
    """
    real_number(confidence, "confidence", 0, 1, open_ends=True)
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    n = len(y)
    if len(x) != n or n < 4:
        raise ShapeError(f"a rank correlation needs four or more pairs, not {len(x)} and {n}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ShapeError("a rank correlation needs finite numbers.")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise ShapeError("one side of a rank correlation is constant; there is nothing to rank.")
    rho = float(spearmanr(x, y).statistic)
    if abs(rho) > 1 - 1e-12:  # a perfect order: Fisher's z is infinite, the interval a point
        return Correlation(rho=rho, low=rho, high=rho, n=n)
    half_width = float(norm.ppf(0.5 + confidence / 2)) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    z = math.atanh(rho)
    return Correlation(rho=rho, low=math.tanh(z - half_width), high=math.tanh(z + half_width), n=n)
