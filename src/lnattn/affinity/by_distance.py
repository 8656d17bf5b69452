"""Token affinity where positions are rotary: T^ee at a distance, its curve, and AUROC with a null.

At a distance Δ the affinities are products of two vectors, q̃_b R_Δ and k̃_a: `TokenVectors`, as of
a model with learned positions. Beside each AUROC stands that of the same queries, given to other
query tokens; the difference, `query_specific_auroc`, is what a head knows of this very query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.affinity.auroc import Neighbours, head_aurocs
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import CorpusError, ShapeError, TokenError
from lnattn.inputs import require, whole_number
from lnattn.rotary.fold import FoldedRelative, MeanVectors, mean_vectors
from lnattn.rotary.weights import TokenEmbeddings
from lnattn.stats import bootstrap_means
from lnattn.weights import check_width


def vectors_at_distance(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    distance: int = 1,
    constants: MeanVectors | None = None,
    query_ids: Sequence[int] | Int[Tensor, "n"] | None = None,
) -> TokenVectors:
    """q̃ R_Δ and k̃ of every token: the two factors of T^ee at distance Δ = i − j.

    constants: q₀ and k₀ (`mean_vectors` unless given). query_ids: only these query tokens. Reads
    the embeddings in blocks. Raises `TokenError` for a distance that no query sees, and for unknown
    tokens; `ShapeError` for weights of another kind or width.
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    check_width(embeddings.d_model, folded.d_model)
    whole_number(distance, "distance", least=-(2**31), most=2**31 - 1, error=TokenError)
    if distance < 0 and folded.causal:
        raise TokenError(f"no query of a causal model sees a key at distance {distance}.")
    if folded.window is not None and distance >= folded.window:
        raise TokenError(
            f"this layer sees {folded.window} keys, so none is {distance} before its query."
        )
    means = mean_vectors(folded, embeddings) if constants is None else constants
    tokens = None if query_ids is None else torch.unique(embeddings.checked(query_ids))
    every = torch.arange(embeddings.vocab_size)

    def rotated(
        project: Callable[[Tensor], Tensor], ids: Tensor, mean: Tensor, position: int
    ) -> Tensor:
        """The projected tokens without their mean, all at one position: [head token d_head]."""
        vectors = mean.new_empty(len(mean), len(ids), folded.d_head)
        for block in folded.blocks(len(ids)):
            apart = project(embeddings.rows(ids[block])) - mean[:, None]
            vectors[:, block] = folded.rotated(apart, torch.full_like(ids[block], position))
        return vectors

    # The query stands at Δ and the key at 0, or, for a key that comes later, the other way round.
    query_ids = every if tokens is None else tokens
    return TokenVectors(
        queries=rotated(folded.queries, query_ids, means.q0, max(distance, 0)),
        keys=rotated(folded.keys, every, means.k0, max(-distance, 0)),
        tokens=tokens,
    )


def curve_over_distance(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    pairs: Sequence[tuple[int, int]],
    distances: Sequence[int],
    constants: MeanVectors | None = None,
) -> Float[Tensor, "pair head distance"]:
    """T^ee of given (query, key) tokens at several distances ≥ 0, before the scale.

    A model that stretches its angles in long texts does so as for a text of the longest distance.
    Raises `ShapeError` without pairs or distances, or for one below 0; `TokenError` for unknown
    tokens.
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    if len(pairs) == 0 or len(distances) == 0 or min(distances) < 0:
        raise ShapeError("a curve needs one pair or more, and distances ≥ 0.")
    means = mean_vectors(folded, embeddings) if constants is None else constants
    ids = embeddings.checked([token for pair in pairs for token in pair]).view(-1, 2)
    queries = folded.queries(embeddings.rows(ids[:, 0])) - means.q0[:, None]
    keys = folded.at_origin(folded.keys(embeddings.rows(ids[:, 1])) - means.k0[:, None])
    rotated = folded.at_distances(queries, torch.tensor(list(distances)))
    return torch.einsum("hpnd,hpd->phn", rotated, keys)


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """AUROC of sampled query tokens for every offset of the query and distance of the pairs.

    offsets: distances that queries are rotated by; counted: how far apart the pairs stand; own,
    wrong: [offset counted head query], of the query itself and of a wrong one. A model with learned
    positions has one offset: its T^ee does not depend on the distance.
    """

    offsets: tuple[int, ...]
    counted: tuple[int, ...]
    queries: Int[np.ndarray, "query"]
    own: Float[np.ndarray, "offset counted head query"]
    wrong: Float[np.ndarray, "offset counted head query"]

    @property
    def query_specific_auroc(self) -> Float[np.ndarray, "offset counted head"]:
        """Mean AUROC over the query tokens, less that of a wrong query."""
        return (self.own - self.wrong).mean(axis=-1)

    def interval(self, level: float = 0.95, draws: int = 1000, seed: int = 0) -> np.ndarray:
        """[head 3]: mean, low, high at the first offset and distance, by bootstrap."""
        return bootstrap_means(self.own[0, 0] - self.wrong[0, 0], level, draws, seed)


def distance_grid(
    vectors: Mapping[int, TokenVectors],
    neighbours: Mapping[int, Neighbours],
    seed: int = 0,
) -> DistanceGrid:
    """The AUROC of every offset against every kind of pair, and of wrong queries.

    vectors: by the offset of their queries, all of the same query tokens; neighbours: by how far
    apart their pairs stand. Query tokens that have no pair of some kind, or one with every token,
    are left out. Raises `CorpusError` where none is left, `ShapeError` without vectors or
    neighbours.
    """
    if not vectors or not neighbours:
        raise ShapeError("a grid needs vectors of one offset or more, and pairs of one distance.")
    first = next(iter(vectors.values()))
    queries = (torch.arange(first.vocab_size) if first.tokens is None else first.tokens).numpy()
    for pairs in neighbours.values():
        partners = pairs.n_distinct[queries]
        queries = queries[(partners > 0) & (partners < pairs.vocab_size)]
    if len(queries) == 0:
        raise CorpusError("no query token occurs in a pair of every distance; count more text.")

    tables = list(neighbours.values())

    def aurocs(of_offset: TokenVectors) -> list[np.ndarray]:
        """For each kind of pair [head query]."""
        return [table.values[:, queries] for table in head_aurocs(of_offset, tables, queries)]

    own_aurocs = []
    wrong_aurocs = []
    for of_offset in vectors.values():
        own_aurocs.append(aurocs(of_offset))
        wrong_aurocs.append(aurocs(of_offset.shuffled(seed, keys=False)))
    return DistanceGrid(
        offsets=tuple(vectors),
        counted=tuple(neighbours),
        queries=queries,
        own=np.array(own_aurocs),
        wrong=np.array(wrong_aurocs),
    )


def sample_queries(counts: Int[np.ndarray, "vocab"], number: int, seed: int = 0) -> np.ndarray:
    """Query tokens at random among those that occur at least 10 times, ascending.

    Raises `ShapeError` for a number below 1, `CorpusError` where no token occurs so often.
    """
    whole_number(number, "number")
    often = np.flatnonzero(counts >= 10)
    if len(often) == 0:
        raise CorpusError("no token occurs 10 times; count more text.")
    sample = np.random.default_rng(seed).choice(often, min(number, len(often)), replace=False)
    return np.sort(sample)
