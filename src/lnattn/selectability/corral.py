"""The few points that Wolfe's walk stands on, and the point of their plane nearest to the origin.

Wolfe (1976) calls them a corral. With the points as the rows of X, the weights μ with Σμ = 1 that
minimise `|Σ μ_k x_k|` are proportional to the solution of (X Xᵀ + 1 1ᵀ) μ = 1. A point more is a
row more of that matrix, of its Cholesky factor L, and of L⁻¹ 1; only where a point is dropped, the
rows after it are factored again. `no_type_check`: numba compiles these functions.
"""

from __future__ import annotations

import math
from typing import no_type_check

from lnattn.compiled import compiled

#: A weight below this is rounding: its key leaves the combination.
NO_WEIGHT = 1e-13


@compiled
@no_type_check
def factor_row(gram, factor, solved, i):
    """Row i of the Cholesky factor L of gram, and of L⁻¹ 1; False if gram is singular.

    The diagonal of `factor` has the reciprocals of L's.
    """
    square = gram[i, i]
    right = 1.0
    for j in range(i):
        entry = gram[i, j]
        for k in range(j):
            entry -= factor[i, k] * factor[j, k]
        entry *= factor[j, j]
        factor[i, j] = entry
        square -= entry * entry
        right -= entry * solved[j]
    if square <= 1e-13 * gram[i, i]:
        return False
    factor[i, i] = 1.0 / math.sqrt(square)
    solved[i] = right * factor[i, i]
    return True


@compiled
@no_type_check
def append(points, gram, m):
    """Row m of the Gram matrix X Xᵀ + 1 1ᵀ of the points so far and points[m]."""
    for j in range(m + 1):
        total = 1.0
        for k in range(points.shape[1]):
            total += points[m, k] * points[j, k]
        gram[m, j] = total


@compiled
@no_type_check
def affine_minimiser(factor, solved, m, weights):
    """Weights μ with Σμ = 1 that minimise `|Σ μ_k points_k|`, from their Gram matrix's factor."""
    total = 0.0
    for i in range(m - 1, -1, -1):
        weight = solved[i]
        for k in range(i + 1, m):
            weight -= factor[k, i] * weights[k]
        weights[i] = weight * factor[i, i]
        total += weights[i]
    for i in range(m):
        weights[i] /= total


@compiled
@no_type_check
def shrink(points, members, gram, weights, target, m):
    """Step from weights towards target until one weight is 0; drop it.

    Returns the new size, and the first row that is not where it was.
    """
    step = 1.0
    for k in range(m):
        if target[k] <= NO_WEIGHT and weights[k] > target[k]:
            step = min(step, weights[k] / (weights[k] - target[k]))
    size = 0
    moved = m
    for k in range(m):
        weight = weights[k] + step * (target[k] - weights[k])
        if weight <= NO_WEIGHT:
            moved = min(moved, size)
            continue
        weights[size] = weight
        if size < k:
            members[size] = members[k]
            points[size] = points[k]
            # Row k of the triangle moves up; then column k moves left in the rows below it.
            gram[size, : size + 1] = gram[k, : size + 1]
            gram[size, size] = gram[k, k]
            for below in range(k + 1, m):
                gram[below, size] = gram[below, k]
        size += 1
    return size, moved
