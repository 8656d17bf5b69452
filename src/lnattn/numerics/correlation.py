"""Rank correlation with a confidence interval, for one or many rows at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from scipy.stats import norm, rankdata

from lnattn.errors import ShapeError


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

    They correct the variance of Fisher's z for ranks: (1 + ρ²/2) / (n − 3). Pairs are taken as
    independent draws. Raises `ShapeError` for fewer than four pairs, unequal lengths, values that
    are not finite, or a constant.
    """
    return spearman_rows(np.asarray(x)[None, :], y, confidence)[0]


def spearman_rows(
    rows: Shaped[np.ndarray, "row n"], y: Shaped[np.ndarray, "n"], confidence: float = 0.95
) -> list[Correlation]:
    """`spearman` of each row with the same y, whose ranks are computed once."""
    rows, y = np.asarray(rows, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = rows.shape[-1]
    if n != len(y) or n < 4:
        raise ShapeError(f"a rank correlation needs four or more pairs, not {n} and {len(y)}.")
    if not 0 < confidence < 1:
        raise ShapeError(f"the confidence must lie between 0 and 1, not {confidence}.")
    if not (np.isfinite(rows).all() and np.isfinite(y).all()):
        raise ShapeError("a rank correlation needs finite numbers.")
    if np.ptp(y) == 0 or (np.ptp(rows, axis=-1) == 0).any():
        raise ShapeError("one side of a rank correlation is constant; there is nothing to rank.")
    ranks = _standard_ranks(y)
    return [_with_interval(float(_standard_ranks(row) @ ranks), n, confidence) for row in rows]


def _standard_ranks(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Ranks centred and scaled to length one, so that a dot product is a correlation."""
    ranks = rankdata(values)
    ranks -= ranks.mean()
    return ranks / np.linalg.norm(ranks)


def _with_interval(rho: float, n: int, confidence: float) -> Correlation:
    rho = min(1.0, max(-1.0, rho))
    if abs(rho) > 1 - 1e-12:  # a perfect order: Fisher's z is infinite, the interval a point
        return Correlation(rho, rho, rho, n)
    half = float(norm.ppf(0.5 + confidence / 2)) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    z = math.atanh(rho)
    return Correlation(rho, math.tanh(z - half), math.tanh(z + half), n)
