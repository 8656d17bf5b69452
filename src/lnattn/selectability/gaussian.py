"""How many of n Gaussian keys no query can select, exactly, in a head of width d.

Corners of the hull of Gaussian points are counted by angles of the regular simplex (Affentranger &
Schneider 1992; Kabluchko & Zaporozhets 2020). The hull of n Gaussian points in R^d is a projection
of the regular simplex with n corners, and the expected number of its corners is twice a sum over
m = d − 1, d − 3, … of (n choose m + 1 kept) inner angle × outer angle; each angle is one integral
over a line, taken here by the trapezoidal rule, which converges exponentially for such integrands.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, log_ndtr, wofz

from lnattn.errors import ShapeError

#: Widths up to which a share is inverted, and the smallest share that rounding leaves of it.
_MOST, _LEAST = 40, 1e-9


@cache
@np.errstate(under="ignore")  # far from the middle the integrand is 0, as meant
def inner_angle(m: int) -> float:
    """The angle of a regular m-simplex at a corner, as a share of all directions."""
    t = np.linspace(-12.0, 12.0, 4001)
    z = -np.sqrt(m) + 1j * t
    # wofz(−iz/√2) is exp(z²/2) erfc(−z/√2), twice Φ(z) without what would underflow.
    values = np.exp(z * z / 2 + m * np.log(wofz(-1j * z / np.sqrt(2)) / 2))
    return float(np.sqrt((m + 1) / (2 * np.pi)) * np.trapezoid(values.real, t))


@np.errstate(under="ignore")
def expected_share(n: int, d: int) -> float:
    """The expected share of n Gaussian keys in R^d that lie in the hull of the others.

    Exact for any mean and any covariance of full rank. Raises `ShapeError` for less than one key or
    dimension.

    >>> round(expected_share(1024, 8), 2), round(expected_share(1024, 32), 2)
    (0.48, 0.0)
    """
    if n < 1 or d < 1:
        raise ShapeError(f"there are no {n} keys of width {d}; give numbers of at least 1.")
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
    """Widths whose shares differ from 0 and 1, and the logits of those shares."""
    shares = np.array([expected_share(n, d) for d in range(1, _MOST + 1)])
    known = (shares > _LEAST) & (shares < 1)
    return np.flatnonzero(known) + 1.0, np.log(shares[known] / (1 - shares[known]))


def effective_dimension(share: Float[np.ndarray, "*sets"], n: int) -> Float[np.ndarray, "*sets"]:
    """The width in which n Gaussian keys have these shares; NaN outside what can be told.

    >>> round(float(effective_dimension(np.array(expected_share(256, 6)), 256)), 6)
    6.0
    """
    widths, logits = _by_width(n)
    with np.errstate(divide="ignore"):
        logit = np.log(share) - np.log1p(-np.asarray(share))
    return np.asarray(np.interp(-logit, -logits, widths, left=np.nan, right=np.nan))
