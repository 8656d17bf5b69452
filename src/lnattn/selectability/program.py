"""One key and the hull of the others, by HiGHS: for the few keys that the walk leaves.

Two linear programs. The first looks for a query v in the box `|v_k|` ≤ 1 and the largest radius
r ≤ 1 with `v·(h_j − p) + r |h_j − p| ≤ 0` for all other keys h_j: a ball of radius r of queries
that select the key p. The second looks for the convex combination of the others that is nearest to
p in the 1-norm.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

#: HiGHS's own tolerances, far below those of the verdicts that its answers are compared with.
_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def widest_query(
    key: Float[np.ndarray, "d"], others: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "d"], float]:
    """The query in the middle of the largest ball that selects `key`, and the ball's radius."""
    d = len(key)
    away = others - key
    solution = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([away, np.linalg.norm(away, axis=1)]),
        b_ub=np.zeros(len(away)),
        bounds=[(-1, 1)] * d + [(0, 1)],
        options=_PRECISE,
    )
    return solution.x[:d], float(solution.x[d])


def nearest_combination(
    key: Float[np.ndarray, "d"], others: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n"]:
    """Weights λ ≥ 0 with Σλ = 1 that minimise `|Σ λ_j h_j − p|₁`."""
    n, d = others.shape
    # The difference is `above` less `below`, both of them non-negative.
    above = np.eye(d)
    below = -np.eye(d)
    sum_of_weights = np.concatenate([np.ones(n), np.zeros(2 * d)])
    solution = linprog(
        np.append(np.zeros(n), np.ones(2 * d)),
        A_eq=np.vstack([np.hstack([(others - key).T, above, below]), sum_of_weights]),
        b_eq=np.append(np.zeros(d), 1.0),
        bounds=[(0, None)] * (n + 2 * d),
        options=_PRECISE,
    )
    return np.clip(solution.x[:n], 0.0, None)
