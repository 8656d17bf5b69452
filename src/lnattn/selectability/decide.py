"""Unselectable keys: which keys can no query give the highest attention score?

For a query, the score of key h_j is v·h_j. Some v makes h_i the only key with the highest score if
and only if h_i is a corner of the convex hull of all keys (Brody et al. 2023, Theorem 1).
`selectability` decides this for every key and gives a proof of each verdict: a direction in which
the key wins, or the convex combination of other keys that it is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from lnattn.arrays import as_array
from lnattn.compiled import in_threads, thread_count
from lnattn.errors import ResultError, ShapeError
from lnattn.products import one_blas_thread
from lnattn.selectability import kernel
from lnattn.selectability.program import nearest_combination, widest_query
from lnattn.stats import blocks

#: How each verdict was found: `Selectability.method` indexes this.
METHODS = ("own or another's direction", "walk", "linear program", "duplicate")
DIRECTION, WALK, PROGRAM, DUPLICATE = range(4)

#: Singular values below this share of the largest are the rounding of float32, and no dimension.
RANK_TOLERANCE = 1e-6
#: Nearer to the hull than this, in whitened coordinates, is inside.
HULL_TOLERANCE = 1e-9
#: The share of a coordinate's usual size that may be dropped as rounding without a warning.
_USUAL_ROUNDING = 0.5


@dataclass(frozen=True, eq=False)
class AffineHull:
    """Keys in coordinates of their affine hull, in which their spread is 1 in every direction.

    points: [n rank]; back: [d rank], so that back @ v is the direction in the original coordinates
    that scores keys as v scores points, up to a constant; noise: the largest length of what was
    dropped from any key; rank: of the affine hull; vanished: [d], the coordinates of which usually
    more than half was dropped, as one key or coordinate is so much larger.
    """

    points: Float[np.ndarray, "n rank"]
    back: Float[np.ndarray, "d rank"]
    noise: float
    rank: int
    vanished: Bool[np.ndarray, "d"]

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
        # [n d − rank], in an orthonormal basis; `right` leads back to the original coordinates.
        dropped = left[:, rank:] * (sizes[rank:] * scale)
        root = np.sqrt(len(keys))
        usual = _usual_size(keys)
        return cls(
            points=np.ascontiguousarray(left[:, :rank] * root),
            back=right[:rank].T * (root / (sizes[:rank] * scale)),
            noise=float(np.linalg.norm(dropped, axis=1).max(initial=0.0)),
            rank=rank,
            vanished=(usual > 0) & (_usual_size(dropped @ right[rank:]) > _USUAL_ROUNDING * usual),
        )

    def direction_of(self, v: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows rank"]:
        """The direction in these coordinates that scores points as v scores keys."""
        # back has orthogonal columns of length root/size; dividing by its square inverts it.
        return v @ (self.back / np.square(self.back).sum(axis=0))


def _usual_size(values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d"]:
    """The median distance of a coordinate from its median, which a single key cannot move."""
    return np.median(np.abs(values - np.median(values, axis=0)), axis=0)


@dataclass(frozen=True, eq=False)
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
        n, d = self.direction.shape
        unselectable = int((~self.selectable).sum())
        words = f"{n} keys in R^{d}, rank {self.rank}: {unselectable} unselectable"
        if self.by_linear_program:
            words += f" ({self.by_linear_program} verdicts by linear program)"
        return f"Selectability({words})"


def selectability(
    keys: Shaped[np.ndarray, "n d"] | Shaped[Tensor, "n d"],
    *,
    strict: bool = True,
    rank_tolerance: float = RANK_TOLERANCE,
    hull_tolerance: float = HULL_TOLERANCE,
) -> Selectability:
    """Decide for every key whether some query selects it, with a certificate for each verdict.

    keys: [n d], real, n ≥ 1; an array, or a tensor of any type and device. strict: of equal keys
    none can be the only one at the top; with strict=False copies count as one key. rank_tolerance:
    singular values below this share of the largest count as rounding. hull_tolerance: a key nearer
    to the hull of the others than this, in standard deviations of the keys, counts as inside. May
    be called from threads and from forked processes.

    Raises `ShapeError` for an array that is empty, not finite or of another shape, or a tolerance
    that is none, and `ResultError` where there is no verdict. Warns where one key or coordinate is
    so large that what the others do counts as rounding.

    >>> square = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])  # and its centre
    >>> selectability(square).selectable.tolist()
    [True, True, True, True, False]
    """
    for name, tolerance in (("rank_tolerance", rank_tolerance), ("hull_tolerance", hull_tolerance)):
        _check_tolerance(name, tolerance)
    given, exponent = scaled_to_one(checked_keys(keys))
    distinct, first, place, copies = _distinct(given)
    with one_blas_thread():
        of_distinct = _decide(distinct, rank_tolerance, hull_tolerance)
    verdicts = replace(
        of_distinct,
        strict=strict,
        selectable=of_distinct.selectable[place],
        method=of_distinct.method[place],
        direction=of_distinct.direction[place],
        margin=np.ldexp(of_distinct.margin[place], exponent),
        support=np.where(of_distinct.support >= 0, first[of_distinct.support], -1)[place],
        weights=of_distinct.weights[place],
        residual=np.ldexp(of_distinct.residual[place], exponent),
        noise=float(np.ldexp(of_distinct.noise, exponent)),
    )
    if strict:
        _refuse_copies(verdicts, copies[place] > 1, _another_copy(first, place))
    return verdicts


def _check_tolerance(name: str, value: object) -> None:
    whole = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (whole and 0 <= value < 1):  # type: ignore[operator]
        raise ShapeError(f"{name} must be a number from 0 up to 1, not {value!r}.")


def checked_keys(keys: np.ndarray | Tensor) -> np.ndarray:
    """Keys in float64; `ShapeError` unless they are [n d], real and finite, and not empty."""
    array = as_array(keys)
    if array.ndim != 2 or array.size == 0:
        raise ShapeError(f"keys must be [n d], at least one key, not {list(array.shape)}.")
    if array.dtype.kind not in "fiu":
        raise ShapeError(f"keys must be real numbers, not {array.dtype}.")
    given = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(given).all(axis=1))
    if len(bad):
        raise ShapeError(f"key {bad[0]} is not finite; drop it or mend what computed it.")
    return given + 0.0  # −0 and 0 are one value, and must be one to np.unique too


def scaled_to_one(
    keys: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, "n d"], int]:
    """(keys / 2^e, e), the largest number of them between ½ and 1: no square of it can overflow.

    A power of two changes no digit; a verdict does not depend on the scale.
    """
    exponent = int(np.frexp(np.abs(keys).max())[1])
    return np.ldexp(keys, -exponent), exponent


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Distinct keys; where each occurs first; which of them each key is; how often each occurs."""
    indices = np.arange(len(keys))
    if len(np.unique(keys[:, 0])) == len(keys):  # most sets: no need to compare whole keys
        return keys, indices, indices, np.ones_like(indices)
    distinct, first, place, copies = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    return distinct, first, place.reshape(-1), copies


def _another_copy(first: np.ndarray, place: np.ndarray) -> np.ndarray:
    """For each key an index of an equal key, its own where there is none."""
    last = np.zeros_like(first)
    last[place] = np.arange(len(place))
    indices = np.arange(len(place))
    return np.where(first[place] != indices, first[place], last[place])


def _refuse_copies(
    verdicts: Selectability, is_copy: Bool[np.ndarray, "n"], another: Int[np.ndarray, "n"]
) -> None:
    """Make the keys that have a copy unselectable, in place: each is its own copy's combination."""
    verdicts.selectable[is_copy] = False
    verdicts.method[is_copy] = DUPLICATE
    verdicts.direction[is_copy] = 0.0
    verdicts.margin[is_copy] = np.nan
    verdicts.residual[is_copy] = 0.0
    verdicts.support[is_copy] = -1
    verdicts.support[is_copy, 0] = another[is_copy]
    verdicts.weights[is_copy] = 0.0
    verdicts.weights[is_copy, 0] = 1.0


def _decide(keys: np.ndarray, rank_tolerance: float, hull_tolerance: float) -> Selectability:
    """`selectability` of distinct keys."""
    hull = AffineHull.of(keys, rank_tolerance)
    _warn_of_what_vanished(keys, hull)
    n, rank = hull.points.shape
    proofs = kernel.Proofs(
        verdict=np.full(n, kernel.UNDECIDED),
        direction=np.zeros((n, rank)),
        support=np.full((n, rank + 2), -1),
        weights=np.zeros((n, rank + 2)),
    )
    method = np.full(n, DIRECTION)
    if rank:
        # Towards the key itself: settles keys of equal length. Away from the centre: most others.
        queries = (hull.direction_of(keys), hull.points)
        _decide_in_the_hull(hull.points, queries, hull_tolerance, proofs, method)
    elif n == 1:
        proofs.verdict[0] = kernel.OUTSIDE
    selectable = proofs.verdict == kernel.OUTSIDE
    proofs.direction[~selectable] = 0.0
    direction = proofs.direction @ hull.back.T
    lengths = np.linalg.norm(direction, axis=1, keepdims=True)
    np.divide(direction, lengths, out=direction, where=lengths > 0)
    return Selectability(
        selectable=selectable,
        strict=True,
        direction=direction,
        margin=_margins(keys, selectable, direction),
        support=proofs.support,
        weights=proofs.weights,
        residual=_residuals(keys, selectable, proofs),
        method=method,
        rank=rank,
        noise=hull.noise,
    )


def _decide_in_the_hull(
    points: Float[np.ndarray, "n rank"],
    queries: tuple[Float[np.ndarray, "n rank"], ...],
    tolerance: float,
    proofs: kernel.Proofs,
    method: Int[np.ndarray, "n"],
) -> None:
    """Fill `proofs` and `method`: by trial queries, then by walks, then by linear programs."""
    n, rank = points.shape
    keys = kernel.Keys(
        points=points,
        columns=np.ascontiguousarray(points.T),
        corners=np.empty(0, np.int64),
        corner_columns=np.empty((rank, 0)),
        tolerance=tolerance,
        most=200 + 20 * rank,
    )
    winner = np.empty(n, np.int64)
    threads = thread_count(n)
    for trial in queries:
        query = np.ascontiguousarray(trial)

        def share(thread: int, query: np.ndarray = query) -> None:
            kernel.winners(keys, query, proofs.verdict, winner, thread, threads)

        in_threads(share, threads)
        kernel.settle(winner, query, proofs.verdict, proofs.direction)
    corners = np.flatnonzero(proofs.verdict == kernel.OUTSIDE)
    todo = np.flatnonzero(proofs.verdict != kernel.OUTSIDE)
    method[todo] = WALK
    known = keys._replace(corners=corners, corner_columns=keys.columns[:, corners].copy())
    in_threads(lambda thread: kernel.walk_all(known, todo, proofs, thread, threads), threads)
    for i in np.flatnonzero(proofs.verdict == kernel.UNDECIDED).tolist():
        method[i] = PROGRAM
        _decide_by_program(points, i, tolerance, proofs)


def _decide_by_program(
    points: Float[np.ndarray, "n rank"], i: int, tolerance: float, proofs: kernel.Proofs
) -> None:
    """The verdict of HiGHS on key i and its proof, into `proofs`."""
    others = np.delete(points, i, axis=0)
    query, radius = widest_query(points[i], others)
    if radius > tolerance:
        proofs.verdict[i] = kernel.OUTSIDE
        proofs.direction[i] = query
        return
    weights = nearest_combination(points[i], others)
    distance = float(np.abs(weights @ others - points[i]).sum())
    used = np.flatnonzero(weights > 0)
    # Its norm is another than that of the walk.
    if distance > 1e3 * tolerance or len(used) > proofs.support.shape[1]:
        raise ResultError(
            f"key {i} of the distinct keys is neither in nor out of the hull: a ball of radius "
            f"{radius:.1e} fits, and the nearest combination is {distance:.1e} away; raise "
            "hull_tolerance."
        )
    proofs.verdict[i] = kernel.INSIDE
    proofs.support[i, : len(used)] = used + (used >= i)
    proofs.weights[i, : len(used)] = weights[used] / weights[used].sum()


def _warn_of_what_vanished(keys: np.ndarray, hull: AffineHull) -> None:
    """Warn where coordinates in which most keys differ were dropped with the rounding."""
    if not hull.vanished.any():
        return
    distances = np.linalg.norm(keys - np.median(keys, axis=0), axis=1)
    sizes = _usual_size(keys)
    far = int(distances.argmax())
    wide = int(sizes.argmax())
    if hull.vanished[wide]:  # even the widest coordinate, so that one key is to blame
        ratio = distances[far] / np.median(distances)
        cause = f"key {far} lies {ratio:.0e} times as far out as the median key; drop it"
    else:
        ratio = sizes[wide] / np.median(sizes[hull.vanished])
        cause = f"coordinate {wide} is {ratio:.0e} times as wide as those; rescale it"
    warnings.warn(
        f"in {int(hull.vanished.sum())} of {keys.shape[1]} coordinates the keys count as equal, "
        f"because {cause}, or give a rank_tolerance below {1 / ratio:.0e}.",
        UserWarning,
        stacklevel=4,
    )


def _margins(
    keys: Float[np.ndarray, "n d"],
    selectable: Bool[np.ndarray, "n"],
    direction: Float[np.ndarray, "n d"],
) -> Float[np.ndarray, "n"]:
    """By how much each selectable key wins in its direction, inf for a key alone; else NaN."""
    n = len(keys)
    if n == 1:
        return np.where(selectable, np.inf, np.nan)
    margin = np.full(n, np.nan)
    centred = keys - keys.mean(axis=0)
    outside = np.flatnonzero(selectable)
    for rows in blocks(len(outside), n):
        corners = outside[rows]
        scores = direction[corners] @ centred.T  # [corner key]
        itself = np.arange(len(corners)), corners
        own_scores = scores[itself]
        scores[itself] = -np.inf
        margin[corners] = own_scores - scores.max(axis=1)
    return margin


def _residuals(
    keys: Float[np.ndarray, "n d"], selectable: Bool[np.ndarray, "n"], proofs: kernel.Proofs
) -> Float[np.ndarray, "n"]:
    """The distance of each unselectable key from its combination; NaN for the others."""
    residual = np.full(len(keys), np.nan)
    if len(keys) == 1:
        return residual
    for i in np.flatnonzero(~selectable):
        used = proofs.support[i] >= 0
        combination = proofs.weights[i, used] @ keys[proofs.support[i, used]]
        residual[i] = np.linalg.norm(combination - keys[i])
    return residual
