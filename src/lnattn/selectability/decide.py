"""Unselectable keys: which keys can no query give the highest attention score? (B3, B7–B11)

For a query, the score of key h_j is v·h_j. Some v makes h_i the only key with the highest score if
and only if h_i is a corner of the convex hull of all keys (Brody et al. 2023, Theorem 1).
`selectability` decides this for every key and gives a proof of each verdict: a direction in which
the key wins, or the convex combination of other keys that it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from lnattn import plain
from lnattn.errors import ResultError, ShapeError
from lnattn.products import one_blas_thread
from lnattn.selectability import kernel
from lnattn.stats import blocks

#: How each verdict was found: `Selectability.method` indexes this.
METHODS = ("own or another's direction", "walk", "linear program", "duplicate")
DIRECTION, WALK, PROGRAM, DUPLICATE = range(4)

#: Singular values below this share of the largest are the rounding of float32, and no dimension.
RANK_TOLERANCE = 1e-6
#: Nearer to the hull than this, in whitened coordinates, is inside.
HULL_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AffineHull:
    """Keys in coordinates of their affine hull, in which their spread is 1 in every direction.

    points: [n rank]; back: [d rank], so that back @ v is the direction in the original coordinates
    that scores keys as v scores points, up to a constant; noise: the largest length of what was
    dropped from any key; rank: of the affine hull.
    """

    points: Float[np.ndarray, "n rank"]
    back: Float[np.ndarray, "d rank"]
    noise: float
    rank: int

    @classmethod
    def of(
        cls, keys: Float[np.ndarray, "n d"], rank_tolerance: float = RANK_TOLERANCE
    ) -> AffineHull:
        """Centre, rotate by the SVD, drop σ < rank_tolerance σ₁, and divide by what is left.

        Which keys are corners does not depend on the scale of a direction, but rounding does.
        """
        centred = keys - keys.mean(axis=0)
        # The scale is taken out first, so that squares neither overflow nor vanish.
        scale = float(np.abs(centred).max(initial=0.0)) or 1.0
        left, sizes, right = np.linalg.svd(centred / scale, full_matrices=False)
        rank = int((sizes > rank_tolerance * sizes[0]).sum()) if len(sizes) else 0
        dropped = left[:, rank:] * (sizes[rank:] * scale)
        root = np.sqrt(len(keys))
        return cls(
            points=np.ascontiguousarray(left[:, :rank] * root),
            back=right[:rank].T * (root / (sizes[:rank] * scale)),
            noise=float(np.linalg.norm(dropped, axis=1).max(initial=0.0)),
            rank=rank,
        )

    def direction_of(self, v: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows rank"]:
        """The direction in these coordinates that scores points as v scores keys."""
        # back has orthogonal columns of length root/size; dividing by its square inverts it.
        return v @ (self.back / np.square(self.back).sum(axis=0))


@dataclass(frozen=True)
class Selectability:
    """A verdict on each of n keys in R^d, with its proof.

    selectable: some query gives this key the highest score, and no other key as high a one. strict:
    whether a key with an exact duplicate counts as unselectable. direction: a query of length 1
    under which a selectable key wins; zeros for the others. margin: by how much it wins there; +inf
    for a key alone, NaN for an unselectable key. support, weights: the other keys whose combination
    an unselectable key is (−1: unused). residual: the distance between the two; NaN for a
    selectable key. method: index into `METHODS`; rank: of the affine hull; noise: the largest part
    of a key outside it.
    """

    selectable: Bool[np.ndarray, "n"]
    strict: bool
    direction: Float[np.ndarray, "n d"]
    margin: Float[np.ndarray, "n"]
    support: Int[np.ndarray, "n most"]
    weights: Float[np.ndarray, "n most"]
    residual: Float[np.ndarray, "n"]
    method: Int[np.ndarray, "n"]
    rank: int
    noise: float

    @property
    def unselectable(self) -> float:
        """The share of keys that no query can select."""
        return float(1.0 - self.selectable.mean())

    @property
    def by_linear_program(self) -> int:
        """How many verdicts the walk left to HiGHS."""
        return int((self.method == PROGRAM).sum())

    def __repr__(self) -> str:
        (n, d), lost = self.direction.shape, int((~self.selectable).sum())
        words = f"{n} keys in R^{d}, rank {self.rank}: {lost} unselectable"
        if self.by_linear_program:
            words += f" ({self.by_linear_program} verdicts by linear program)"
        return f"Selectability({words})"


def selectability(
    keys: Shaped[np.ndarray, "n d"],
    *,
    strict: bool = True,
    rank_tolerance: float = RANK_TOLERANCE,
    hull_tolerance: float = HULL_TOLERANCE,
) -> Selectability:
    """Decide for every key whether some query selects it, with a certificate for each verdict.

    keys: [n d], real, n ≥ 1. strict: of equal keys none can be the only one at the top; with
    strict=False copies count as one key. rank_tolerance: singular values below this share of the
    largest count as rounding. hull_tolerance: a key nearer to the hull of the others than this, in
    standard deviations of the keys, counts as inside. Raises `ShapeError` for an array that is
    empty, not finite or of another shape, and `ResultError` where there is no verdict.

    >>> square = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])  # and its centre
    >>> selectability(square).selectable.tolist()
    [True, True, True, True, False]
    """
    given = checked_keys(keys)
    distinct, first, place, copies = _distinct(given)
    with one_blas_thread():
        found = _decide(distinct, rank_tolerance, hull_tolerance)
    support = np.where(found.support >= 0, first[found.support], -1)[place]
    weights, direction = found.weights[place], found.direction[place]
    selectable, method = found.selectable[place], found.method[place]
    margin, residual = found.margin[place], found.residual[place]
    if strict:
        twice = copies[place] > 1
        second = _another_copy(first, place)
        selectable[twice], method[twice], direction[twice] = False, DUPLICATE, 0.0
        margin[twice], residual[twice] = np.nan, 0.0
        support[twice], weights[twice] = -1, 0.0
        support[twice, 0], weights[twice, 0] = second[twice], 1.0
    return Selectability(
        selectable, strict, direction, margin, support, weights, residual, method,
        found.rank, found.noise,
    )  # fmt: skip


def checked_keys(keys: np.ndarray) -> np.ndarray:
    """Keys in float64; `ShapeError` unless they are [n d], real and finite, and not empty."""
    array = np.asarray(keys)
    if array.ndim != 2 or array.size == 0:
        raise ShapeError(f"keys must be [n d], at least one key, not {list(array.shape)}.")
    if array.dtype.kind not in "fiu":
        raise ShapeError(f"keys must be real numbers, not {array.dtype}.")
    given = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(given).all(axis=1))
    if len(bad):
        raise ShapeError(f"key {bad[0]} is not finite; drop it or mend what computed it.")
    return given + 0.0  # −0 and 0 are one value, and must be one to np.unique too


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Distinct keys; where each occurs first; which of them each key is; how often each occurs."""
    here = np.arange(len(keys))
    if len(np.unique(keys[:, 0])) == len(keys):  # most sets: no need to compare whole keys
        return keys, here, here, np.ones_like(here)
    distinct, first, place, copies = np.unique(keys, True, True, True, axis=0)
    return distinct, first, place.reshape(-1), copies


def _another_copy(first: np.ndarray, place: np.ndarray) -> np.ndarray:
    """For each key an index of an equal key, its own where there is none."""
    last = np.zeros_like(first)
    last[place] = np.arange(len(place))
    here = np.arange(len(place))
    return np.where(first[place] != here, first[place], last[place])


def _decide(keys: np.ndarray, rank_tolerance: float, hull_tolerance: float) -> Selectability:
    """`selectability` of distinct keys."""
    hull = AffineHull.of(keys, rank_tolerance)
    n, rank = hull.points.shape
    verdict = np.full(n, kernel.UNDECIDED)
    directions = np.zeros((n, rank))
    support, weights = np.full((n, rank + 2), -1), np.zeros((n, rank + 2))
    passes, method = np.zeros(n, np.int64), np.full(n, DIRECTION)
    if rank:
        columns = np.ascontiguousarray(hull.points.T)
        threads = min(nb.get_num_threads(), n)
        # Towards the key itself: settles keys of equal length. Away from the centre: most others.
        trials = np.stack([hull.direction_of(keys), hull.points])
        kernel.own_direction(
            hull.points, columns, trials, hull_tolerance, verdict, directions, threads
        )
        corners, todo = np.flatnonzero(verdict == 1), np.flatnonzero(verdict != 1)
        method[todo] = WALK
        kernel.walk_all(
            hull.points, columns, todo, corners, hull_tolerance, 200 + 20 * rank,
            verdict, passes, directions, support, weights, threads,
        )  # fmt: skip
        for i in np.flatnonzero(verdict == kernel.UNDECIDED).tolist():
            method[i] = PROGRAM
            verdict[i] = _by_program(hull.points, i, hull_tolerance, (directions, support, weights))
    elif n == 1:
        verdict[0] = kernel.OUTSIDE
    selectable = verdict == kernel.OUTSIDE
    directions[~selectable] = 0.0
    original = directions @ hull.back.T
    lengths = np.linalg.norm(original, axis=1, keepdims=True)
    np.divide(original, lengths, out=original, where=lengths > 0)
    margin, residual = _measure(keys, selectable, original, support, weights)
    return Selectability(
        selectable, True, original, margin, support, weights, residual, method, rank, hull.noise
    )


def _by_program(
    points: np.ndarray, i: int, tolerance: float, proofs: tuple[np.ndarray, ...]
) -> int:
    """The verdict on key i by HiGHS; its direction, or support and weights, enter `proofs`."""
    direction, support, weights = (of_all[i] for of_all in proofs)
    others = np.delete(points, i, axis=0)
    v, radius = plain.winning_query(points[i], others)
    if radius > tolerance:
        direction[:] = v
        return kernel.OUTSIDE
    lam = np.clip(plain.combination(points[i], others), 0.0, None)
    distance = float(np.abs(lam @ others - points[i]).sum())
    used = np.flatnonzero(lam > 0)
    # Its norm is another than that of the walk.
    if distance > 1e3 * tolerance or len(used) > len(support):
        raise ResultError(
            f"key {i} of the distinct keys is neither in nor out of the hull: a ball of radius "
            f"{radius:.1e} fits, and the nearest combination is {distance:.1e} away; raise "
            "hull_tolerance."
        )
    support[: len(used)], weights[: len(used)] = used + (used >= i), lam[used] / lam[used].sum()
    return kernel.INSIDE


def _measure(
    keys: np.ndarray, selectable: np.ndarray, direction: np.ndarray,
    support: np.ndarray, weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Margins of the directions and residuals of the combinations, in the original coordinates."""
    n = len(keys)
    margin, residual = np.full(n, np.nan), np.full(n, np.nan)
    if n == 1:
        return np.where(selectable, np.inf, np.nan), residual
    centred, outside = keys - keys.mean(axis=0), np.flatnonzero(selectable)
    for rows in blocks(len(outside), n):
        these = outside[rows]
        scores = direction[these] @ centred.T
        here = np.arange(len(these)), these
        own, scores[here] = scores[here], -np.inf
        margin[these] = own - scores.max(axis=1)
    for i in np.flatnonzero(~selectable):
        used = support[i] >= 0
        residual[i] = np.linalg.norm(weights[i, used] @ keys[support[i, used]] - keys[i])
    return margin, residual
