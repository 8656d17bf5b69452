"""The search that Brody et al. use, with its bounds: what their tables count as unselectable.

For each key their code (after Grivas et al. 2022) first tries to find a winning query by
reflections: start from the key itself; while another key wins, reflect the query in the plane on
which the two tie. What is left goes to a linear program for the Chebyshev centre of the winning
queries, which must lie in the box `|v_k|` ≤ 100 and hold a ball of radius 1e-8 or more; HiGHS
stands here for Gurobi. It differs from the geometry in that the box and the radius do not follow
the keys' scale, so that a corner that is only just one is missed, and in that float32 keys in a
plane leave it by their rounding, which a query of length 100 turns into a score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.optimize import linprog
from torch import Tensor

from lnattn.arrays import as_array
from lnattn.selectability.decide import checked_keys

#: The box, the smallest radius, and the number of reflections.
BOUND, RADIUS, PATIENCE = 100.0, 1e-8, 100
#: By how much a row of a program may be missed, as a share of the smallest radius.
TOLERANCE = 0.1
#: HiGHS: solved, or proved to have no solution; anything else is no verdict.
_OPTIMAL, _INFEASIBLE = 0, 2


@dataclass(frozen=True, eq=False)
class BoundedSearch:
    """What the papers' search says about each of n keys.

    selectable: a winning query was found; query: [n d], the query found, or zeros; rank: of the
    keys by the search's own measure; genuine: the winning query gives the key the highest score in
    float64 as well; programs: how many linear programs were solved; unsolved: how many of them
    ended without a verdict, which count as unselectable, as in the original.
    """

    selectable: Bool[np.ndarray, "n"]
    query: Float[np.ndarray, "n d"]
    genuine: Bool[np.ndarray, "n"]
    rank: int
    programs: int
    unsolved: int

    @property
    def unselectable(self) -> float:
        """The share of keys for which the search found no query."""
        return float(1.0 - self.selectable.mean())


def bounded_search(
    keys: Shaped[np.ndarray, "n d"] | Shaped[Tensor, "n d"], patience: int = PATIENCE
) -> BoundedSearch:
    """Run the papers' search over all keys [n d].

    Raises `ShapeError` for keys that are not finite numbers. Unlike the original, a rank below full
    is reported and is no error, and neither is a query that does not do what it should.
    """
    points = checked_keys(keys)
    n, d = points.shape
    query, reflected = _reflections(as_array(keys), patience)
    reflected &= (np.abs(query) <= BOUND).all(axis=1)
    query[~reflected] = 0.0
    selectable = reflected.copy()
    # A simplex has no inside: the original does not search below d + 1 keys.
    left = np.flatnonzero(~reflected).tolist() if n >= d + 1 else []
    unsolved = 0
    for i in left:
        status, centre = _centre(points, i)
        unsolved += status not in (_OPTIMAL, _INFEASIBLE)
        if status == _OPTIMAL:
            selectable[i] = True
            query[i] = centre
    if n < d + 1:
        selectable[:] = True
    scores = points @ query.T  # [key query]
    return BoundedSearch(
        selectable=selectable,
        query=query,
        genuine=selectable & (scores.argmax(axis=0) == np.arange(n)),
        rank=int(np.linalg.matrix_rank(points)),
        programs=len(left),
        unsolved=unsolved,
    )


def _reflections(keys: np.ndarray, patience: int) -> tuple[np.ndarray, np.ndarray]:
    """The queries after at most `patience` reflections each, and whether their keys win.

    In the keys' own precision, as the original works; all keys take their steps side by side.
    """
    query = keys.astype(keys.dtype if keys.dtype.kind == "f" else np.float64)
    indices = np.arange(len(keys))
    winner = _winners(query, keys)
    for _ in range(patience):
        going = np.flatnonzero(winner != indices)
        if not len(going):
            break
        across = keys[going] - keys[winner[going]]
        lengths = np.linalg.norm(across, axis=1, keepdims=True)
        # A copy of the key ties with it for ever; there is no plane between the two.
        np.divide(across, lengths, out=across, where=lengths > 0)
        query[going] -= 2 * (across * query[going]).sum(axis=1, keepdims=True) * across
        winner[going] = _winners(query[going], keys)
    return query.astype(np.float64), winner == indices


def _winners(query: np.ndarray, keys: np.ndarray) -> Int[np.ndarray, "rows"]:
    blocks = np.array_split(query, 1 + len(query) * len(keys) // (1 << 22))
    return np.concatenate([(block @ keys.T).argmax(axis=1) for block in blocks])


def _centre(points: np.ndarray, i: int) -> tuple[int, np.ndarray | None]:
    """HiGHS's status, and the centre of the largest ball of winning queries in the box, if any."""
    across = np.delete(points, i, axis=0) - points[i]
    d = points.shape[1]
    solution = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([across, np.linalg.norm(across, axis=1)]),
        b_ub=np.zeros(len(across)),
        bounds=[(-BOUND, BOUND)] * d + [(RADIUS, None)],
        method="highs",
        options={"primal_feasibility_tolerance": RADIUS * TOLERANCE},
    )
    return solution.status, None if solution.x is None else solution.x[:d]
