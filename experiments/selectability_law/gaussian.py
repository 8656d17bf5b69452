"""How many of n Gaussian keys no query of a head of width d can select, exactly.

Corners of the hull of Gaussian points are counted by angles of the regular simplex (Affentranger &
Schneider 1992; Kabluchko & Zaporozhets 2020). Each angle is one integral; the README has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, log_ndtr, wofz

from lnattn.selectability.decide import selectability
from lnattn.selectability.random_keys import random_grid, standardised

#: Widths up to which a share is inverted, and the smallest share that rounding leaves of it.
_MOST, _LEAST = 40, 1e-9


@cache
def inner_angle(m: int) -> float:
    """Of a regular m-simplex at a corner, as a share of all directions."""
    t = np.linspace(-12.0, 12.0, 4001)
    z = -np.sqrt(m) + 1j * t
    # wofz(−iz/√2) is exp(z²/2) erfc(−z/√2), twice Φ(z) without what would underflow.
    values = np.exp(z * z / 2 + m * np.log(wofz(-1j * z / np.sqrt(2)) / 2))
    return float(np.sqrt((m + 1) / (2 * np.pi)) * np.trapezoid(values.real, t))


def expected_share(n: int, d: int) -> float:
    """The expected share of n Gaussian keys in R^d that lie in the hull of the others."""
    if n <= d + 1:
        return 0.0
    h = np.linspace(-9.0, 9.0, 6001)
    corner = 0.0
    for m in range(d - 1, -1, -2):
        choices = gammaln(n) - gammaln(m + 1) - gammaln(n - m)  # of m other keys
        size = choices + np.log(inner_angle(m)) + np.log((m + 1) / (2 * np.pi)) / 2
        outer = np.exp(size - (m + 1) * h * h / 2 + (n - 1 - m) * log_ndtr(h))
        corner += 2 * float(np.trapezoid(outer, h))
    return max(0.0, 1.0 - corner)


@cache
def _by_width(n: int) -> tuple[np.ndarray, np.ndarray]:
    shares = np.array([expected_share(n, d) for d in range(1, _MOST + 1)])
    known = (shares > _LEAST) & (shares < 1)
    return np.flatnonzero(known) + 1.0, np.log(shares[known] / (1 - shares[known]))


def effective_dimension(share: Float[np.ndarray, "*sets"], n: int) -> Float[np.ndarray, "*sets"]:
    """The width in which n Gaussian keys have these shares; NaN outside what can be told."""
    widths, logits = _by_width(n)
    with np.errstate(divide="ignore"):
        asked = np.log(share) - np.log1p(-np.asarray(share))
    return np.interp(-asked, -logits, widths, left=np.nan, right=np.nan)


def drawn(counts: Sequence[int], widths: Sequence[int], draws: int) -> dict[str, np.ndarray]:
    """The same by the package's walk: expected [n d], unselectable [n d draw]."""
    expected = [[expected_share(n, d) for d in widths] for n in counts]
    return {
        "expected": np.array(expected),
        "unselectable": random_grid(counts, widths, draws).unselectable,
    }


def on_spheres(n: int, widths: Sequence[int], parts: int, draws: int) -> dict[str, np.ndarray]:
    """Shares of n LayerNormed random keys in a `parts`-th of their dimensions: [width draw]."""
    rng = np.random.default_rng(0)

    def share(d: int) -> float:
        return selectability(standardised(rng.normal(size=(n, d)))[:, : d // parts]).unselectable

    return {"share": np.array([[share(d) for _ in range(draws)] for d in widths])}
