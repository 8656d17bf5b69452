"""What a head does by distance alone where positions are rotary or relative.

There are no curves over positions to draw as for T^p and T^pp, but one over the distance Δ for
each head: `d`, q₀ R_Δ k₀ᵀ and the bias. How much of a score is that? With q₀ and k₀ the means
weighted by token counts, the four terms are uncorrelated over pairs of tokens drawn from text,
independently of each other and of the distance: an analysis of variance, whose shares add up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.relative import Constants, FoldedRelative, mean_vectors
from lnattn.errors import ShapeError
from lnattn.numerics.correlation import Correlation, spearman_rows
from lnattn.relative import TokenEmbeddings

#: Numbers in one block of projected tokens: 64 MiB in float32.
_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """The term `d` of every head over distances, and how the variance of scores divides.

    distances: [distance]; curve: [head distance], before the scale; variance: [term head], in
    the order of `DISTANCE_TERMS`, over tokens drawn by their counts and over the distances.
    """

    distances: tuple[int, ...]
    curve: Float[np.ndarray, "head distance"]
    variance: Float[np.ndarray, "term head"]
    scale: float

    @property
    def share(self) -> Float[np.ndarray, "term head"]:
        """Shares of the four terms in the variance of a score; each head's add up to 1."""
        return self.variance / self.variance.sum(axis=0)

    def table(self) -> pd.DataFrame:
        """One row a head: the four shares, the standard deviation of scores, the best distance."""
        best = np.asarray(self.distances)[self.curve.argmax(axis=1)]
        rows = dict(zip(DISTANCE_TERMS, self.share, strict=True))
        spread = np.sqrt(self.variance.sum(axis=0)) / self.scale
        table = pd.DataFrame({**rows, "standard deviation": spread, "favourite distance": best})
        return table.rename_axis("head")


def distance_bias(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Int[np.ndarray, "vocab"],
    distances: Sequence[int],
) -> DistanceBias:
    """Curves by distance alone, and shares of variance, with tokens weighted by their counts.

    Costs V · d_head² for each head, and d_head³ for each distance: no pair of tokens is looked at.
    A model that stretches its angles in long texts does so as for a text of the longest distance.
    """
    if len(distances) == 0 or min(distances) < 0:
        raise ShapeError("give one distance or more, all ≥ 0.")
    weights = torch.as_tensor(np.asarray(counts, dtype=np.float64))
    means = mean_vectors(folded, embeddings, weights)
    spread_q, spread_k = _spread(folded, embeddings, weights, means)
    places = torch.tensor(list(distances))
    still = torch.zeros(1, dtype=torch.long)
    k0 = folded.per_head(folded.turned(means.k0.double()[:, None], still))
    rows = torch.zeros(spread_k.shape[-1], dtype=torch.long)
    keys = folded.per_head(folded.turned(spread_k, rows))  # [head row d_head]
    # One query or row of the spread at every distance: [head row distance d_head].
    q0 = folded.turned(means.q0.double()[:, None].expand(-1, len(places), -1), places)
    queries = folded.turned(spread_q[:, :, None].expand(-1, -1, len(places), -1), places)
    alone = torch.einsum("hnd,hod->hn", q0, k0)
    if folded.bias is not None:
        alone = alone + folded.bias(places).double()
    variance = torch.stack(
        [
            torch.einsum("hrnd,hsd->hnrs", queries, keys).square().sum((2, 3)).mean(1),
            torch.einsum("hrnd,hod->hnr", queries, k0).square().sum(2).mean(1),
            torch.einsum("hnd,hsd->hns", q0, keys).square().sum(2).mean(1),
            alone.var(dim=1, correction=0),
        ]
    )
    return DistanceBias(tuple(distances), alone.numpy(), variance.numpy(), folded.scale)


def _spread(
    folded: FoldedRelative, embeddings: TokenEmbeddings, weights: Tensor, means: Constants
) -> tuple[Tensor, Tensor]:
    """F with FᵀF the covariance of queries, [head d_head d_head], and of keys, in float64."""
    share = weights / weights.sum()
    used = torch.nonzero(share).squeeze(1)
    covariances = [torch.zeros(len(m), m.shape[1], m.shape[1]).double() for m in
                   (means.q0, means.k0)]  # fmt: skip
    step = max(1, _BLOCK // max(folded.d_model, folded.n_heads * folded.d_head))
    for ids in used.split(step):
        rows = embeddings.rows(ids)
        for made, mean, sum_ in zip(
            (folded.queries(rows), folded.keys(rows)), (means.q0, means.k0), covariances,
            strict=True,
        ):  # fmt: skip
            apart = (made - mean[:, None]).double()
            sum_ += (apart * share[ids, None]).mT @ apart
    factors = []
    for covariance in covariances:
        values, vectors = torch.linalg.eigh(covariance)
        factors.append(values.clamp_min(0).sqrt()[..., None] * vectors.mT)
    return factors[0], factors[1]


@dataclass(frozen=True, eq=False)
class SelfAssertion:
    """`e` of the tokens that occur, at one distance, against how often they occur.

    tokens: ids with at least the asked count; counts: [token]; asserted: q₀ R_Δ k̃_vᵀ, [head token],
    before the scale; correlations: Spearman of each head with the counts.
    """

    distance: int
    tokens: Int[np.ndarray, "token"]
    counts: Int[np.ndarray, "token"]
    asserted: Float[np.ndarray, "head token"]
    correlations: tuple[Correlation, ...]


def self_assertion(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Int[np.ndarray, "vocab"],
    distance: int = 1,
    min_count: int = 1,
) -> SelfAssertion:
    """What each key asserts at a distance, whatever the query, and its rank correlation with use.

    q₀ and k₀ are the means weighted by the counts: the query is the average one of the text.
    """
    means = mean_vectors(folded, embeddings, torch.as_tensor(np.asarray(counts)))
    tokens = np.flatnonzero(counts >= min_count)
    place = torch.tensor([distance])
    q0 = folded.turned(means.q0[:, None], place)
    asserted = np.empty((folded.n_heads, len(tokens)))
    step = max(1, _BLOCK // max(folded.d_model, folded.n_heads * folded.d_head))
    begin = 0
    for ids in torch.from_numpy(tokens).split(step):
        keys = folded.keys(embeddings.rows(ids)) - means.k0[:, None]
        keys = folded.per_head(folded.turned(keys, torch.zeros(len(ids), dtype=torch.long)))
        asserted[:, begin : begin + len(ids)] = (q0 @ keys.mT).squeeze(1).double().numpy()
        begin += len(ids)
    return SelfAssertion(
        distance,
        tokens,
        counts[tokens],
        asserted,
        tuple(spearman_rows(asserted, counts[tokens])),
    )
