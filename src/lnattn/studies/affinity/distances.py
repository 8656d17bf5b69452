"""Does a head look for the token before, and at which distance? AUROC by distance, with its null.

Queries turned by Δ are compared with the pairs that a corpus holds δ tokens apart, for several Δ
and δ at once. Beside each AUROC stands that of a wrong query: the same queries, dealt out to other
query tokens. What is left, the *skill*, is what a head knows of this very query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from lnattn.errors import CorpusError, ResultError
from lnattn.studies.affinity.auroc import Neighbours, head_auroc
from lnattn.studies.affinity.vectors import TokenVectors


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """AUROC of sampled query tokens for every turn of the query and distance of the pairs.

    own, wrong: [turn counted head query], of the query itself and of a wrong one. A model with
    learned positions has one turn: its T^ee does not depend on the distance.
    """

    turns: tuple[int, ...]
    counted: tuple[int, ...]
    queries: Int[np.ndarray, "query"]
    own: Float[np.ndarray, "turn counted head query"]
    wrong: Float[np.ndarray, "turn counted head query"]

    @property
    def skill(self) -> Float[np.ndarray, "turn counted head"]:
        """Mean AUROC over the query tokens, less that of a wrong query."""
        return (self.own - self.wrong).mean(axis=-1)

    def interval(self, level: float = 0.95, draws: int = 1000, seed: int = 0) -> np.ndarray:
        """[head 3]: mean, low, high of the skill at the first turn and distance, by bootstrap."""
        return _bootstrap(self.own[0, 0] - self.wrong[0, 0], level, draws, seed)


def distance_grid(
    vectors: Mapping[int, TokenVectors],
    neighbours: Mapping[int, Neighbours],
    seed: int = 0,
    device: str | torch.device | None = None,
) -> DistanceGrid:
    """The AUROC of every turn against every kind of pair, and of wrong queries.

    vectors: by the turn of their queries, all of the same query tokens; neighbours: by how far
    apart their pairs stand. Query tokens that have no pair of some kind, or one with every token,
    are left out. Raises `CorpusError` where none is left.
    """
    first = next(iter(vectors.values()))
    tokens = torch.arange(first.vocab_size) if first.tokens is None else first.tokens
    queries = tokens.numpy()
    for counted in neighbours.values():
        partners = counted.n_distinct[queries]
        queries = queries[(partners > 0) & (partners < counted.vocab_size)]
    if len(queries) == 0:
        raise CorpusError("no query token occurs in a pair of every distance; count more text.")

    def of(these: Iterable[TokenVectors]) -> np.ndarray:
        kinds = neighbours.values()
        found = [
            [head_auroc(one, pairs, queries, device=device).values[:, queries] for pairs in kinds]
            for one in these
        ]
        return np.array(found)

    own = of(vectors.values())
    wrong = of(one.shuffled(seed, keys=False) for one in vectors.values())
    return DistanceGrid(tuple(vectors), tuple(neighbours), queries, own, wrong)


def sample_queries(counts: Int[np.ndarray, "vocab"], number: int, seed: int = 0) -> np.ndarray:
    """Query tokens at random among those that occur at least 10 times, ascending."""
    often = np.flatnonzero(counts >= 10)
    chosen = np.random.default_rng(seed).choice(often, min(number, len(often)), replace=False)
    return np.sort(chosen)


def skill_difference(
    one: DistanceGrid, other: DistanceGrid, draws: int = 1000, seed: int = 0
) -> Float[np.ndarray, "3"]:
    """Skill of the best head of one model less that of another's: mean, low, high (95 %).

    Both at their first turn and distance, on the same query tokens, which are drawn anew together.
    Each model's best head is chosen on all of them, so both differences are flattered alike.
    """
    if not np.array_equal(one.queries, other.queries):
        raise ResultError("the two models were not asked about the same query tokens.")
    best = []
    for grid in (one, other):
        skill = grid.own[0, 0] - grid.wrong[0, 0]
        best.append(skill[skill.mean(axis=1).argmax()])
    return _bootstrap((best[0] - best[1])[None], 0.95, draws, seed)[0]


def _bootstrap(
    values: Float[np.ndarray, "row query"], level: float, draws: int, seed: int
) -> Float[np.ndarray, "row 3"]:
    rng = np.random.default_rng(seed)
    n = values.shape[1]
    means = np.stack(
        [values @ np.bincount(rng.integers(n, size=n), minlength=n) / n for _ in range(draws)]
    )
    edges = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.stack([values.mean(axis=1), *edges], axis=1)
