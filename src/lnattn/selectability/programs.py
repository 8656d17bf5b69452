"""The same question as two linear programs, solved by HiGHS: slow, independent, and a last resort.

Both are posed in the coordinates that they are given; nothing is centred or reduced here.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import OptimizeResult, linprog

from lnattn.errors import ShapeError

#: A ball of this radius must fit: well above HiGHS's feasibility tolerance of 1e-7, below which a
#: radius that it reports may be nothing but slack.
SMALLEST_RADIUS = 1e-6


def separating_direction(
    keys: Float[np.ndarray, "n d"], index: int, bound: float = 1.0
) -> tuple[Float[np.ndarray, "d"], float]:
    """A direction in which key `index` beats all others by most, and the radius of its ball.

    Maximise r with v·(h_j − h_i) + |h_j − h_i| r ≤ 0 for all j ≠ i, |v_k| ≤ bound, r ≥ 0: the
    Chebyshev centre of the cone of winning queries, cut off at `bound` (Grivas et al. 2022 put it
    so, with r ≥ 1e-8). A radius of 0 says that no query selects the key; below `SMALLEST_RADIUS`
    it says nothing.
    """
    others = np.delete(keys, index, axis=0) - keys[index]
    if not len(others):
        return np.zeros(keys.shape[1]), bound
    sizes = np.linalg.norm(others, axis=1)
    d = keys.shape[1]
    found = _solve(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([others, sizes]),
        b_ub=np.zeros(len(others)),
        bounds=[(-bound, bound)] * d + [(0.0, None)],
    )
    return found.x[:d], float(found.x[d])


def hull_weights(
    keys: Float[np.ndarray, "n d"], index: int
) -> tuple[Float[np.ndarray, "n"], float]:
    """The combination of other keys that comes nearest to key `index`, and how near.

    Minimise Σ_k |Σ_j λ_j h_jk − h_ik| with λ ≥ 0, Σ λ = 1, λ_i = 0. Distance 0: in the hull.
    """
    n, d = keys.shape
    if n < 2:
        raise ShapeError("one key alone has no other keys to be combined from.")
    shifted = (keys - keys[index]).T
    upper = np.ones(n)
    upper[index] = 0.0
    found = _solve(
        np.concatenate([np.zeros(n), np.ones(2 * d)]),
        A_eq=np.block(
            [
                [shifted, np.eye(d), -np.eye(d)],
                [np.ones((1, n)), np.zeros((1, 2 * d))],
            ]
        ),
        b_eq=np.append(np.zeros(d), 1.0),
        bounds=[*((0.0, top) for top in upper), *[(0.0, None)] * (2 * d)],
    )
    return np.clip(found.x[:n], 0.0, None), float(found.fun)


def _solve(cost: np.ndarray, **constraints: object) -> OptimizeResult:
    found = linprog(cost, method="highs", **constraints)
    if not found.success:
        raise ShapeError(f"HiGHS did not solve a linear program of these keys: {found.message}")
    return found
