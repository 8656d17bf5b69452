"""What q₀ and k₀ account for: scores that are nearly a sum, and coordinates that are massive.

With q = q₀ + q̃ and k = k₀ + k̃ a score at distance Δ is q R_Δ k₀ᵀ + q R_Δ k̃ᵀ, plus a bias. The
first part depends on query and distance alone, f(q, Δ). The second depends on all three; its mean
over the distances is g(q, k), and what it moves about that mean is the remainder. Over keys drawn
by their counts and distances drawn evenly the three are uncorrelated for every query: an analysis
of variance, exact, without a pair of tokens being looked at. (Han & Ji 2025 fit f + g to scores.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lnattn.errors import ShapeError
from lnattn.inputs import require
from lnattn.rotary.fold import FoldedRelative, mean_vectors
from lnattn.rotary.position import covariance_factors
from lnattn.rotary.weights import TokenEmbeddings


class NearlyASum(NamedTuple):
    """Variance of a query's scores over keys and distances, mean over queries: [head], unscaled.

    distance: of f(q, Δ); pair: of g(q, k); ee, e: of the remainder, what T^ee and T^e move about
    their means over the distances.
    """

    distance: Float[np.ndarray, "head"]
    pair: Float[np.ndarray, "head"]
    ee: Float[np.ndarray, "head"]
    e: Float[np.ndarray, "head"]

    @property
    def correlation(self) -> Float[np.ndarray, "head"]:
        """Of the scores with f + g, their best fit of that form, within queries."""
        fitted = self.distance + self.pair
        return np.sqrt(fitted / (fitted + self.ee + self.e))


def nearly_a_sum(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Int[np.ndarray, "vocab"],
    distances: Sequence[int],
) -> NearlyASum:
    """How much of the variance of scores is f(q, Δ) + g(q, k), tokens weighted by their counts.

    Costs d_head³ for each head and distance. A soft cap bends scores and is left out. Raises
    `ShapeError` for fewer than two distances, one below 0, or counts of another vocabulary.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> counts = np.ones(model.embeddings.vocab_size, dtype=np.int64)
    >>> nearly_a_sum(folded, model.embeddings, counts, range(64)).correlation.shape
    (8,)
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    if len(distances) < 2 or min(distances) < 0:
        raise ShapeError("give two distances or more, all ≥ 0.")
    weights = torch.as_tensor(np.asarray(counts, dtype=np.float64))
    means = mean_vectors(folded, embeddings, weights)
    spread_q, spread_k = covariance_factors(folded, embeddings, weights, means)
    places = torch.tensor(list(distances))
    k0 = folded.at_origin(means.k0.double()[:, None])[:, 0]
    keys = folded.at_origin(spread_k)  # [head row d_head]
    average = folded.at_distances(means.q0.double()[:, None], places)[:, 0]  # [head distance d]
    queries = folded.at_distances(spread_q, places)  # [head row distance d_head]
    # Of f what the average query has, with the bias, and what the others have beside it.
    alone = torch.einsum("hnd,hd->hn", average, k0)
    if folded.bias is not None:
        alone = alone + folded.bias(places).double()
    wanted = torch.einsum("hrnd,hd->hrn", queries, k0)
    distance = alone.var(dim=-1, correction=0) + wanted.var(dim=-1, correction=0).sum(dim=-1)
    e = torch.einsum("hnd,hsd->hns", average, keys)
    ee = torch.einsum("hrnd,hsd->hrns", queries, keys)
    pair = e.mean(dim=1).square().sum(dim=-1) + ee.mean(dim=2).square().sum(dim=(1, 2))
    return NearlyASum(
        distance=distance.numpy(),
        pair=pair.numpy(),
        ee=ee.var(dim=2, correction=0).sum(dim=(1, 2)).numpy(),
        e=e.var(dim=1, correction=0).sum(dim=-1).numpy(),
    )


class CoordinateEnergies(NamedTuple):
    """Mean squares of the coordinates of queries (or keys), and those of their constant.

    whole, constant: [head d_head].
    """

    whole: Float[np.ndarray, "head d_head"]
    constant: Float[np.ndarray, "head d_head"]

    @property
    def times_the_mean(self) -> Float[np.ndarray, "head"]:
        """The largest coordinate's root mean square, by the mean of those of its head."""
        sizes = np.sqrt(self.whole)
        return sizes.max(axis=1) / sizes.mean(axis=1)

    @property
    def of_the_largest(self) -> Float[np.ndarray, "head"]:
        """The constant's share of the energy of the largest coordinate."""
        heads = np.arange(len(self.whole))
        largest = self.whole.argmax(axis=1)
        return self.constant[heads, largest] / self.whole[heads, largest]

    @property
    def of_the_rest(self) -> Float[np.ndarray, "head"]:
        """The constant's share of the energy of all coordinates but the largest."""
        heads = np.arange(len(self.whole))
        largest = self.whole.argmax(axis=1)
        constant = self.constant.sum(axis=1) - self.constant[heads, largest]
        whole = self.whole.sum(axis=1) - self.whole[heads, largest]
        return constant / whole


def coordinate_energies(
    folded: FoldedRelative, embeddings: TokenEmbeddings, counts: Int[np.ndarray, "vocab"]
) -> tuple[CoordinateEnergies, CoordinateEnergies]:
    """Energies of the coordinates of queries and of keys, unrotated, tokens weighted by counts.

    Raises `ShapeError` for counts of another vocabulary.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> counts = np.ones(model.embeddings.vocab_size, dtype=np.int64)
    >>> queries, keys = coordinate_energies(folded, model.embeddings, counts)
    >>> queries.whole.shape, keys.whole.shape  # heads share keys
    ((8, 32), (2, 32))
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    weights = torch.as_tensor(np.asarray(counts, dtype=np.float64))
    means = mean_vectors(folded, embeddings, weights)
    factors = covariance_factors(folded, embeddings, weights, means)
    energies = []
    for mean, factor in zip((means.q0, means.k0), factors, strict=True):
        constant = mean.double().square()
        whole = constant + factor.square().sum(dim=1)
        energies.append(CoordinateEnergies(whole=whole.numpy(), constant=constant.numpy()))
    queries, keys = energies
    return queries, keys
