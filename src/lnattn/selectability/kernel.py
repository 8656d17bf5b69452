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
from typing import no_type_check

import numba as nb
import numpy as np

from lnattn.selectability.corral import NO_WEIGHT, affine_minimiser, append, factor_row, shrink

#: Verdicts of the kernel.
OUTSIDE, INSIDE, UNDECIDED = 1, 0, -1

#: Takes a key out of a search for the smallest score; finite, as fast arithmetic asks for.
_FAR = 1e300


@nb.njit(cache=True, nogil=True, fastmath=True)
@no_type_check
def scores_of(columns, x, scores):
    """scores[j] = x·z_j for all j; columns: [rank n], so that the inner loop runs along memory."""
    rank, n = columns.shape
    scores[:n] = 0.0
    k = 0
    while k + 4 <= rank:
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        c0, c1, c2, c3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        for j in range(n):
            scores[j] += x0 * c0[j] + x1 * c1[j] + x2 * c2[j] + x3 * c3[j]
        k += 4
    while k < rank:
        x0, c0 = x[k], columns[k]
        for j in range(n):
            scores[j] += x0 * c0[j]
        k += 1


@nb.njit(cache=True, nogil=True, fastmath=True)
@no_type_check
def smallest(scores, n):
    """Index of the smallest of n scores, the first if several."""
    low, first = scores[0], n
    for j in range(n):
        low = min(low, scores[j])
    for j in range(n):
        first = min(first, j if scores[j] == low else n)
    return first


@nb.njit(cache=True, nogil=True)
@no_type_check
def _next(z, columns, corners, corner_columns, i, x, scores):
    """The key j ≠ i with the smallest x·(z_j − z_i), and that number.

    Among the known corners first: if one of them is not beyond p, the walk can go there.
    """
    offset = 0.0
    for k in range(len(x)):
        offset += x[k] * z[i, k]
    if len(corners):
        scores_of(corner_columns, x, scores)
        j = smallest(scores, len(corners))
        if scores[j] - offset <= 0.0:
            return corners[j], scores[j] - offset
    scores_of(columns, x, scores)
    scores[i] = _FAR
    j = smallest(scores, len(z))
    return j, scores[j] - offset


@nb.njit(cache=True, nogil=True)
@no_type_check
def walk(z, columns, corners, corner_columns, i, tolerance, most, scores, direction, support, lam):
    """Wolfe's walk for key i; fills direction, or support and lam; returns (verdict, passes)."""
    rank = z.shape[1]
    points, members = np.empty((rank + 2, rank)), np.empty(rank + 2, np.int64)
    weights, target = np.zeros(rank + 2), np.empty(rank + 2)
    gram, factor = np.empty((rank + 2, rank + 2)), np.empty((rank + 2, rank + 2))
    solved, x = np.empty(rank + 2), np.empty(rank)

    x[:] = -z[i]
    members[0], _ = _next(z, columns, corners, corner_columns, i, x, scores)
    points[0] = z[members[0]] - z[i]
    weights[0], m = 1.0, 1
    append(points, gram, 0)
    x[:] = points[0]
    ready = factor_row(gram, factor, solved, 0)
    for passes in range(1, most):
        square = 0.0
        for k in range(rank):
            square += x[k] * x[k]
        if square < tolerance * tolerance:
            support[:m], lam[:m] = members[:m], weights[:m]
            return INSIDE, passes
        j, gap = _next(z, columns, corners, corner_columns, i, x, scores)
        if gap > tolerance * math.sqrt(square):
            direction[:] = -x
            return OUTSIDE, passes
        known = m > rank or not ready
        for k in range(m):
            known = known or members[k] == j
        if known:  # no progress is possible: rounding has the better of us
            return UNDECIDED, passes
        members[m], weights[m] = j, 0.0
        for k in range(rank):
            points[m, k] = z[j, k] - z[i, k]
        append(points, gram, m)
        if not factor_row(gram, factor, solved, m):
            return UNDECIDED, passes
        m += 1
        while True:
            affine_minimiser(factor, solved, m, target)
            inner = True
            for k in range(m):
                inner = inner and target[k] > NO_WEIGHT
            if inner:
                weights[:m] = target[:m]
                break
            kept, moved = shrink(points, members, gram, weights, target, m)
            if kept == m or kept == 0:
                return UNDECIDED, passes
            m = kept
            for row in range(moved, m):
                if not factor_row(gram, factor, solved, row):
                    return UNDECIDED, passes
        x[:] = 0.0
        for k in range(m):
            for axis in range(rank):
                x[axis] += weights[k] * points[k, axis]
    return UNDECIDED, most


@nb.njit(cache=True, parallel=True)
@no_type_check
def own_direction(z, columns, trials, tolerance, verdict, directions, threads):
    """First pass: whoever wins in direction trials[t, i], strictly, is a corner. [trial n rank].

    A later trial is made only for keys that are not decided. Winners are settled afterwards, in
    order.
    """
    n = len(z)
    winner = np.empty(n, np.int64)
    for trial in range(len(trials)):
        winner[:] = -1
        for thread in nb.prange(threads):
            scores = np.empty(n)
            for i in range(thread, n, threads):
                if verdict[i] == OUTSIDE:
                    continue
                x = -trials[trial, i]
                size = 0.0
                for k in range(len(x)):
                    size += x[k] * x[k]
                scores_of(columns, x, scores)
                first = smallest(scores, n)
                best, scores[first] = scores[first], _FAR
                second = smallest(scores, n)
                if scores[second] - best > tolerance * math.sqrt(size):
                    winner[i] = first
        for i in range(n):
            j = winner[i]
            # A key's own direction is the more telling certificate, so it may replace another's.
            if j >= 0 and (verdict[j] != OUTSIDE or j == i):
                verdict[j] = OUTSIDE
                directions[j] = trials[trial, i]


@nb.njit(cache=True, parallel=True)
@no_type_check
def walk_all(
    z, columns, todo, corners, tolerance, most, verdict, passes, directions, support, lam, threads
):
    """Second pass: Wolfe's walk for the keys in `todo`, dealt out in turn to `threads` threads."""
    corner_columns = np.empty((z.shape[1], len(corners)))
    for c in range(len(corners)):
        corner_columns[:, c] = z[corners[c]]
    for thread in nb.prange(threads):
        scores = np.empty(len(z))
        for t in range(thread, len(todo), threads):
            i = todo[t]
            verdict[i], passes[i] = walk(
                z, columns, corners, corner_columns, i, tolerance, most, scores,
                directions[i], support[i], lam[i],
            )  # fmt: skip
