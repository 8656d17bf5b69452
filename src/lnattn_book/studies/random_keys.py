"""Random keys over a whole grid of n and d (Brody et al. 2023, Fig. 1c and 1d).

The figure's caption speaks of the *average fraction* of unselectable keys over 100 draws; the
released code counts the draws in which *any* key is unselectable. Both come from the same draws,
all of a cell decided in one call of a compiled loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from lnattn.compiled import compiled, in_threads, thread_count
from lnattn.selectability import kernel
from lnattn.selectability.decide import HULL_TOLERANCE, selectability

#: The grid of the released code: 13 widths, 58 numbers of keys, 100 draws each.
WIDTHS, COUNTS, DRAWS = tuple(range(3, 16)), tuple(range(3, 61)), 100


@dataclass(frozen=True, eq=False)
class RandomGrid:
    """Unselectable keys among random ones.

    counts: [n], widths: [d]; unselectable: [n d draw], how many of the n keys; layer_norm: whether
    the keys were LayerNormed; by_program: how many sets the compiled walk left to the full study.
    """

    counts: Int[np.ndarray, "n"]
    widths: Int[np.ndarray, "d"]
    unselectable: Int[np.ndarray, "n d draw"]
    layer_norm: bool
    seed: int
    by_program: int

    @property
    def fraction(self) -> Float[np.ndarray, "n d"]:
        """Mean fraction of unselectable keys: what the caption says."""
        return self.unselectable.mean(axis=2) / self.counts[:, None]

    @property
    def probability(self) -> Float[np.ndarray, "n d"]:
        """Share of draws with any unselectable key: what the released code plots."""
        return (self.unselectable > 0).mean(axis=2)


def random_grid(
    counts: Sequence[int] = COUNTS,
    widths: Sequence[int] = WIDTHS,
    draws: int = DRAWS,
    *,
    layer_norm: bool = False,
    seed: int = 0,
) -> RandomGrid:
    """Decide all keys of `draws` sets of standard normal keys for each n and d.

    layer_norm: standardise each key first (σ with ε = 0); d must then be at least 3, since in the
    plane a standardised key is one of two points.
    """
    unselectable = np.zeros((len(counts), len(widths), draws), np.int64)
    left_over = 0
    for column, d in enumerate(widths):
        for row, n in enumerate(counts):
            keys = np.random.default_rng([seed, n, d]).normal(size=(draws, n, d))
            keys = standardised(keys) if layer_norm else keys
            unselectable[row, column] = _unselectable_in_sets(keys, HULL_TOLERANCE)
            for draw in np.flatnonzero(unselectable[row, column] < 0):
                left_over += 1
                unselectable[row, column, draw] = (~selectability(keys[draw]).selectable).sum()
    return RandomGrid(
        counts=np.array(counts),
        widths=np.array(widths),
        unselectable=unselectable,
        layer_norm=layer_norm,
        seed=seed,
        by_program=left_over,
    )


def standardised(
    keys: Float[np.ndarray, "*sets n d"],
) -> Float[np.ndarray, "*sets n d_minus_1"]:
    """Keys after LayerNorm without gain, bias and ε, in an orthonormal basis of the plane 1^⊥.

    Rows of the basis (Helmert's): (1, …, 1, −k, 0, …, 0)/√(k(k+1)). Norms stay √d.
    """
    d = keys.shape[-1]
    basis = np.tril(np.ones((d - 1, d)))
    basis[np.arange(d - 1), np.arange(1, d)] = -np.arange(1, d)
    basis /= np.linalg.norm(basis, axis=1, keepdims=True)
    projected = keys @ basis.T
    return projected * (np.sqrt(d) / np.linalg.norm(projected, axis=-1, keepdims=True))


def _unselectable_in_sets(
    sets: Float[np.ndarray, "draw n rank"], tolerance: float
) -> Int[np.ndarray, "draw"]:
    """How many keys of each set are unselectable; −1 where the walk cannot tell."""
    count = np.zeros(len(sets), np.int64)
    threads = thread_count(len(sets))
    in_threads(lambda thread: _count_in_sets(sets, tolerance, count, thread, threads), threads)
    return count


@compiled
@no_type_check
def _count_in_sets(sets, tolerance, count, start, step):
    """The same for every set of one thread. Normal keys need no whitening, and no corner is known.

    For keys of a handful of dimensions the walk is short, so that all of a set is done at once.
    """
    draws, n, rank = sets.shape
    columns = np.empty((rank, n))
    scores = np.empty(n)
    direction = np.empty(rank)
    support = np.empty(rank + 2, np.int64)
    weights = np.empty(rank + 2)
    corners = np.empty(0, np.int64)
    corner_columns = np.empty((rank, 0))
    for draw in range(start, draws, step):
        points = sets[draw]
        columns[:] = points.T
        most_steps = 200 + 20 * rank
        keys = kernel.Keys(points, columns, corners, corner_columns, tolerance, most_steps)
        for i in range(n):
            kernel.scores_of(columns, -points[i], scores)
            own_score = scores[i]
            scores[i] = kernel.FAR
            if scores[kernel.smallest(scores, n)] - own_score > tolerance * (1.0 - own_score):
                continue  # it wins in its own direction
            verdict = kernel.walk(keys, i, scores, direction, support, weights)
            if verdict == kernel.UNDECIDED:
                count[draw] = -1
                break
            count[draw] += verdict == kernel.INSIDE
