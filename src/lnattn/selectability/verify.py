"""Checking the proofs of `selectability`, one key at a time and by nothing but arithmetic.

A direction is a proof if its margin exceeds what float64 can have rounded; where it does not, the
margin is computed again in rational numbers. A combination of floating-point numbers hits its key
up to a residual; in rational numbers its weights can be solved for exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from lnattn.errors import ResultError
from lnattn.selectability.decide import (
    Selectability,
    checked_keys,
    scaled_to_one,
    selectability,
)

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Verification:
    """What a check of all certificates found.

    directions, combinations: how many of each kind held; exact: how many were proved in rational
    numbers; smallest_margin: over all directions, in units of the keys; largest_residual: over all
    combinations, over the spread of the keys; failures: one sentence for each that proves nothing.
    """

    directions: int
    combinations: int
    exact: int
    smallest_margin: float
    largest_residual: float
    failures: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every certificate held."""
        return not self.failures


def verify(
    keys: Shaped[np.ndarray, "n d"] | Shaped[Tensor, "n d"],
    verdicts: Selectability,
    *,
    exact: bool = False,
    tolerance: float = 1e-8,
) -> Verification:
    """Check every certificate of `verdicts` against the keys.

    A direction must put its key above every other key (above every different one, unless
    `verdicts.strict`). A combination must have non-negative weights of sum 1 on other keys, and a
    residual of at most `tolerance` times the largest distance of a key from the mean, plus twice
    `verdicts.noise`. exact: prove in rational numbers, for small sets whose combinations are exact
    ones. Raises `ResultError` where `verdicts` are about other keys.
    """
    given = checked_keys(keys)
    if given.shape != verdicts.direction.shape:
        raise ResultError(
            f"these certificates are about {list(verdicts.direction.shape)} keys, not "
            f"{list(given.shape)}; compute them again."
        )
    # In these units nothing overflows, and what is small does not vanish.
    points, exponent = scaled_to_one(given)
    spread = float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())
    largest = float(np.abs(points).sum(axis=1).max())
    allowed = tolerance * spread + 2.0 * float(np.ldexp(verdicts.noise, -exponent))
    margins = []
    residuals = []
    failures = []
    exactly = 0
    for i in range(len(points)):
        if verdicts.selectable[i]:
            margin, rational = _margin(points, verdicts, i, largest, exact)
            margins.append(margin)
            exactly += rational
            if not margin > 0:
                size = np.ldexp(margin, exponent)
                failures.append(f"key {i} does not win in its direction: margin {size:.3g}.")
            continue
        residual, problem = _residual(points, verdicts, i)
        residuals.append(residual)
        if exact and problem is None:
            rational = exactly_combined(points, i, verdicts.support[i])
            exactly += rational
            if not rational:
                problem = "is no exact combination of its support"
        elif problem is None and residual > allowed:
            size, limit = np.ldexp([residual, allowed], exponent)
            problem = f"is {size:.3g} from its combination, more than {limit:.3g}"
        if problem:
            failures.append(f"key {i} {problem}.")
    return Verification(
        directions=sum(margin > 0 for margin in margins),
        combinations=len(residuals) - (len(failures) - sum(not m > 0 for m in margins)),
        exact=exactly,
        smallest_margin=float(np.ldexp(min(margins, default=np.inf), exponent)),
        largest_residual=max(residuals, default=0.0) / (spread or 1.0),
        failures=tuple(failures),
    )


def verified_selectability(keys: Shaped[np.ndarray, "n d"]) -> Selectability:
    """`selectability` of keys, every certificate checked; `ResultError` where one does not hold."""
    verdicts = selectability(keys)
    checked = verify(keys, verdicts)
    if not checked.ok:
        raise ResultError(f"a certificate does not hold: {checked.failures[0]}")
    return verdicts


def _margin(
    points: np.ndarray, verdicts: Selectability, i: int, largest: float, exact: bool
) -> tuple[float, bool]:
    """The lead of key i in its direction, and whether rational numbers were needed for it."""
    v = verdicts.direction[i]
    rivals = np.arange(len(points)) != i
    if not verdicts.strict:
        rivals &= (points != points[i]).any(axis=1)
    if not rivals.any():
        return np.inf, False
    margin = float(points[i] @ v - (points[rivals] @ v).max())
    # Each product and each sum of d of them rounds once; two such scores are subtracted.
    rounding = 2.0 * (len(v) + 1) * _EPS * largest * float(np.abs(v).max())
    if not exact and margin > rounding:
        return margin, False
    query = [Fraction(float(c)) for c in v]

    def exact_score(key: np.ndarray) -> Fraction:
        products = (Fraction(float(c)) * q for c, q in zip(key, query, strict=True))
        return sum(products, Fraction(0))

    best_rival = max(exact_score(key) for key in points[rivals])
    return float(exact_score(points[i]) - best_rival), True


def _residual(points: np.ndarray, verdicts: Selectability, i: int) -> tuple[float, str | None]:
    """Distance of key i from its combination, and what is wrong with that, if anything."""
    used = verdicts.support[i] >= 0
    members = verdicts.support[i][used]
    weights = verdicts.weights[i][used]
    if not used.any() or members.max() >= len(points):
        return np.inf, "has no combination of keys of this set"
    residual = float(np.linalg.norm(weights @ points[members] - points[i]))
    if (members == i).any():
        return residual, "is combined from itself"
    if not verdicts.strict and (points[members] == points[i]).all(axis=1).any():
        return residual, "is combined from its own copy, which counts as the same key"
    if (weights < 0).any() or abs(float(weights.sum()) - 1.0) > 1e-12 * len(weights):
        return residual, "has weights that are negative or do not sum to 1"
    return residual, None


def exactly_combined(points: np.ndarray, i: int, support: np.ndarray) -> bool:
    """Whether key i is a convex combination of its support in rational arithmetic.

    Solves Σ λ_k h_k = h_i, Σ λ_k = 1 by elimination; the support must be affinely independent, as
    that of a walk is.
    """
    members = [k for k in support.tolist() if k >= 0]
    rows = [
        [Fraction(float(points[k, c])) for k in members] + [Fraction(float(points[i, c]))]
        for c in range(points.shape[1])
    ]
    rows.append([Fraction(1)] * (len(members) + 1))
    unknowns = len(members)
    for column in range(unknowns):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return False
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column][column]
        rows[column] = [entry / lead for entry in rows[column]]
        for r, row in enumerate(rows):
            if r != column and row[column]:
                factor = row[column]
                rows[r] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    solved = all(row[-1] == 0 for row in rows[unknowns:])
    return solved and all(row[-1] >= 0 for row in rows[:unknowns])
