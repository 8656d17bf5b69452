"""Which keys are corners of the convex hull: Wolfe's minimum-norm point, compiled.

Move key p to the origin: it is a convex combination of the other keys if and only if the origin
lies in the hull of z_j − p. Wolfe's algorithm (1976) walks to the point x of that hull which is
nearest to the origin; each step needs one pass over the keys, for the j with the smallest x·z_j:

* x·(z_j − p) > 0 for all j: the direction −x gives p the highest score, and the walk can end.
* x = 0: the weights of the walk are the convex combination.

Whichever key wins in its own direction is a corner; the others search among these corners first.
"""

from __future__ import annotations

import math
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from lnattn.compiled import compiled
from lnattn.selectability.corral import NO_WEIGHT, affine_minimiser, append, factor_row, shrink

#: Verdicts of the kernel.
OUTSIDE, INSIDE, UNDECIDED = 1, 0, -1

#: Takes a key out of a search for the smallest score; finite, as fast arithmetic asks for.
FAR = 1e300


class Keys(NamedTuple):
    """A set of keys as the walk reads it.

    corners: keys that are known to be corners, which are searched first. tolerance: how near to the
    hull of the others counts as inside. most: passes over the keys before a walk is given up.
    """

    points: Float[np.ndarray, "n rank"]
    columns: Float[np.ndarray, "rank n"]
    corners: Int[np.ndarray, "corner"]
    corner_columns: Float[np.ndarray, "rank corner"]
    tolerance: float
    most: int


class Proofs(NamedTuple):
    """What the kernel finds for each key: a verdict, and a direction or a combination.

    support: indices of other keys, −1 where unused; weights: theirs, which sum to 1.
    """

    verdict: Int[np.ndarray, "n"]
    direction: Float[np.ndarray, "n rank"]
    support: Int[np.ndarray, "n rank_and_2"]
    weights: Float[np.ndarray, "n rank_and_2"]


@compiled(fastmath=True)
@no_type_check
def scores_of(columns, x, scores):
    """scores[j] = x·z_j for all j; columns: [rank n], so that the inner loop runs along memory."""
    rank, n = columns.shape
    scores[:n] = 0.0
    k = 0
    while k + 4 <= rank:
        x0 = x[k]
        x1 = x[k + 1]
        x2 = x[k + 2]
        x3 = x[k + 3]
        c0 = columns[k]
        c1 = columns[k + 1]
        c2 = columns[k + 2]
        c3 = columns[k + 3]
        for j in range(n):
            scores[j] += x0 * c0[j] + x1 * c1[j] + x2 * c2[j] + x3 * c3[j]
        k += 4
    while k < rank:
        x0 = x[k]
        c0 = columns[k]
        for j in range(n):
            scores[j] += x0 * c0[j]
        k += 1


@compiled(fastmath=True)
@no_type_check
def smallest(scores, n):
    """Index of the smallest of n scores, the first if several."""
    low = scores[0]
    first = n
    for j in range(n):
        low = min(low, scores[j])
    for j in range(n):
        first = min(first, j if scores[j] == low else n)
    return first


@compiled
@no_type_check
def _next(keys, i, x, scores):
    """The key j ≠ i with the smallest x·(z_j − z_i), and that number.

    Among the known corners first: if one of them is not beyond key i, the walk can go there.
    """
    offset = 0.0
    for k in range(len(x)):
        offset += x[k] * keys.points[i, k]
    if len(keys.corners):
        scores_of(keys.corner_columns, x, scores)
        j = smallest(scores, len(keys.corners))
        if scores[j] - offset <= 0.0:
            return keys.corners[j], scores[j] - offset
    scores_of(keys.columns, x, scores)
    scores[i] = FAR
    j = smallest(scores, len(keys.points))
    return j, scores[j] - offset


@compiled
@no_type_check
def walk(keys, i, scores, direction, support, combination):  # noqa: C901 (one walk, written out for numba)
    """Wolfe's walk for key i: its verdict.

    Fills direction [rank], or support and combination [rank + 2]. scores [n] is scratch.
    """
    z = keys.points
    rank = z.shape[1]
    points = np.empty((rank + 2, rank))
    members = np.empty(rank + 2, np.int64)
    weights = np.zeros(rank + 2)
    target = np.empty(rank + 2)
    gram = np.empty((rank + 2, rank + 2))
    factor = np.empty((rank + 2, rank + 2))
    solved = np.empty(rank + 2)
    x = np.empty(rank)

    x[:] = -z[i]
    members[0], _ = _next(keys, i, x, scores)
    points[0] = z[members[0]] - z[i]
    weights[0] = 1.0
    m = 1
    append(points, gram, 0)
    x[:] = points[0]
    ready = factor_row(gram, factor, solved, 0)
    for _ in range(1, keys.most):
        square = 0.0
        for k in range(rank):
            square += x[k] * x[k]
        if square < keys.tolerance * keys.tolerance:
            support[:m] = members[:m]
            combination[:m] = weights[:m]
            return INSIDE
        j, gap = _next(keys, i, x, scores)
        if gap > keys.tolerance * math.sqrt(square):
            direction[:] = -x
            return OUTSIDE
        known = m > rank or not ready
        for k in range(m):
            known = known or members[k] == j
        if known:  # no progress is possible: rounding has the better of us
            return UNDECIDED
        members[m] = j
        weights[m] = 0.0
        for k in range(rank):
            points[m, k] = z[j, k] - z[i, k]
        append(points, gram, m)
        if not factor_row(gram, factor, solved, m):
            return UNDECIDED
        m += 1
        while True:
            affine_minimiser(factor, solved, m, target)
            inner = True
            for k in range(m):
                inner = inner and target[k] > NO_WEIGHT
            if inner:
                weights[:m] = target[:m]
                break
            size, moved = shrink(points, members, gram, weights, target, m)
            if size == m or size == 0:
                return UNDECIDED
            m = size
            for row in range(moved, m):
                if not factor_row(gram, factor, solved, row):
                    return UNDECIDED
        x[:] = 0.0
        for k in range(m):
            for axis in range(rank):
                x[axis] += weights[k] * points[k, axis]
    return UNDECIDED


@compiled
@no_type_check
def winners(keys, queries, verdict, winner, start, step):
    """winner[i] = the key that wins, strictly, for queries[i], [n rank]; −1 for none.

    For i = start, start + step and so on, but for keys that are decided already.
    """
    n = len(keys.points)
    scores = np.empty(n)
    for i in range(start, n, step):
        winner[i] = -1
        if verdict[i] == OUTSIDE:
            continue
        x = -queries[i]
        size = 0.0
        for k in range(len(x)):
            size += x[k] * x[k]
        scores_of(keys.columns, x, scores)
        first = smallest(scores, n)
        best = scores[first]
        scores[first] = FAR
        second = smallest(scores, n)
        if scores[second] - best > keys.tolerance * math.sqrt(size):
            winner[i] = first


@compiled
@no_type_check
def settle(winner, queries, verdict, direction):
    """Whoever wins for a query is a corner, and the query proves it."""
    for i in range(len(winner)):
        j = winner[i]
        # A key's own direction is the more telling certificate, so it may replace another's.
        if j >= 0 and (verdict[j] != OUTSIDE or j == i):
            verdict[j] = OUTSIDE
            direction[j] = queries[i]


@compiled
@no_type_check
def walk_all(keys, todo, proofs, start, step):
    """Wolfe's walk for the keys todo[start], todo[start + step] and so on."""
    scores = np.empty(len(keys.points))
    for t in range(start, len(todo), step):
        i = todo[t]
        proofs.verdict[i] = walk(
            keys, i, scores, proofs.direction[i], proofs.support[i], proofs.weights[i]
        )
