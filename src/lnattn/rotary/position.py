"""What a head does by distance alone where positions are rotary or relative.

In the place of T^p and T^pp each head has one curve over the distance Δ: `d`, q₀ R_Δ k₀ᵀ and the
bias. With q₀ and k₀ the means weighted by token counts, the four terms are uncorrelated over pairs
of tokens drawn from text, independently of each other and of the distance: an analysis of variance,
whose shares add up to 1. A query's mean over all keys and distances is the same for all of its
keys, so that the softmax never sees it: it is taken from `ed`, and no part of the shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.special import softmax
from torch import Tensor

from lnattn.attention.nulls import permuted_weights
from lnattn.errors import ShapeError
from lnattn.inputs import require, whole_number
from lnattn.rotary.fold import FoldedRelative, MeanVectors, fold_relative, mean_vectors
from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn.rotary.weights import RelativeFirstLayer, TokenEmbeddings

#: The distances that curves of a study go over, and its longest text.
CONTEXT = 256
#: How often heads are permuted for the nulls of shares and divergences.
NULLS = 20


class DistanceVariance(NamedTuple):
    """The term `d` over distances, [head distance], and the variance of scores, all unscaled.

    variance: [term head], of what differs between the keys of a query; constant: [head], of a
    query's mean score.
    """

    curve: Float[np.ndarray, "head distance"]
    variance: Float[np.ndarray, "term head"]
    constant: Float[np.ndarray, "head"]

    @property
    def share(self) -> Float[np.ndarray, "term head"]:
        """Shares of the four terms in the variance between keys; each head's add up to 1."""
        return self.variance / self.variance.sum(axis=0)


def distance_variance(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Int[np.ndarray, "vocab"],
    distances: Sequence[int],
) -> DistanceVariance:
    """Curves by distance alone, and shares of variance, with tokens weighted by their counts.

    Costs V · d_head² for each head, and d_head³ for each distance: no pair of tokens is looked at.
    A model that stretches its angles in long texts does so as for a text of the longest distance.
    Raises `ShapeError` for no distance, or one below 0.
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    if len(distances) == 0 or min(distances) < 0:
        raise ShapeError("give one distance or more, all ≥ 0.")
    weights = torch.as_tensor(np.asarray(counts, dtype=np.float64))
    means = mean_vectors(folded, embeddings, weights)
    factors_q, factors_k = covariance_factors(folded, embeddings, weights, means)
    places = torch.tensor(list(distances))
    curves = []
    variances = []
    constants = []
    q0 = folded.at_distances(means.q0.double()[:, None], places)[:, 0]  # [head distance d_head]
    k0 = folded.at_origin(means.k0.double()[:, None])  # [head 1 d_head]
    all_keys = folded.at_origin(factors_k)  # [head row d_head]
    # A head at a time: rotated to every distance, the factors of one head of width 128 and its
    # scores take 64 MiB, and those of a model of billions of parameters gigabytes.
    for head, keys in enumerate(all_keys):
        queries = folded.at_distances(factors_q[head, None], places)[0]  # [row distance d_head]
        alone = torch.einsum("nd,od->n", q0[head], k0[head])
        if folded.bias is not None:
            alone = alone + folded.bias(places)[head].double()
        wanted = torch.einsum("rnd,od->rn", queries, k0[head])
        constant = wanted.mean(dim=1, keepdim=True)
        ee = torch.einsum("rnd,sd->nrs", queries, keys).square().sum((1, 2)).mean()
        ed = (wanted - constant).square().sum(0).mean()
        e = torch.einsum("nd,sd->ns", q0[head], keys).square().sum(1).mean()
        curves.append(alone)
        variances.append(torch.stack([ee, ed, e, alone.var(correction=0)]))
        constants.append(constant.square().sum())
    return DistanceVariance(
        curve=torch.stack(curves).numpy(),
        variance=torch.stack(variances, dim=1).numpy(),
        constant=torch.stack(constants).numpy(),
    )


def covariance_factors(
    folded: FoldedRelative, embeddings: TokenEmbeddings, weights: Tensor, means: MeanVectors
) -> list[Tensor]:
    """F with FᵀF the covariance of queries, [head d_head d_head], and of keys, in float64."""
    share = weights / weights.sum()
    occurring = torch.nonzero(share).squeeze(1)
    factors = []
    for project, mean in ((folded.queries, means.q0), (folded.keys, means.k0)):
        heads, d_head = mean.shape
        covariance = torch.zeros(heads, d_head, d_head, dtype=torch.float64)
        for block in folded.blocks(len(occurring)):
            ids = occurring[block]
            apart = (project(embeddings.rows(ids)) - mean[:, None]).double()
            covariance += (apart * share[ids, None]).mT @ apart
        values, axes = torch.linalg.eigh(covariance)
        factors.append(values.clamp_min(0).sqrt()[..., None] * axes.mT)
    return factors


def self_assertion(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Int[np.ndarray, "vocab"],
    distance: int = 1,
    min_count: int = 1,
) -> tuple[Int[np.ndarray, "token"], Float[np.ndarray, "head token"]]:
    """Tokens with at least that count, and `e` of each as a key, q₀ R_Δ k̃ᵀ, before the scale.

    q₀ and k₀ are the means weighted by the counts: the query is the average one of the text. Raises
    `ShapeError` for counts of another vocabulary.
    """
    means = mean_vectors(folded, embeddings, torch.as_tensor(np.asarray(counts)))
    tokens = np.flatnonzero(counts >= min_count)
    q0 = folded.rotated(means.q0[:, None], torch.tensor([distance]))
    asserted = np.empty((folded.n_heads, len(tokens)))
    for block in folded.blocks(len(tokens)):
        ids = torch.from_numpy(tokens[block])
        keys = folded.at_origin(folded.keys(embeddings.rows(ids)) - means.k0[:, None])
        asserted[:, block] = (q0 @ keys.mT).squeeze(1).double().numpy()
    return tokens, asserted


@dataclass(frozen=True, eq=False)
class ByDistance:
    """What a first layer does by distance alone, beside its nulls. Made by `by_distance`.

    curve, null_curve: [head distance], the term d divided by the scale, of the model and of all its
    weights permuted; share: [term head], of the variance of scores between the keys of a query;
    spread: [head], its square root, divided by the scale; constant: [head], the variance between
    queries that the softmax never sees, as a multiple of that between keys; null_share:
    [null head], of d, with the heads permuted and the embeddings as they are; sinks: [head], the
    logits of learned sinks, None for a model without.
    """

    curve: Float[np.ndarray, "head distance"]
    null_curve: Float[np.ndarray, "head distance"]
    share: Float[np.ndarray, "term head"]
    spread: Float[np.ndarray, "head"]
    constant: Float[np.ndarray, "head"]
    null_share: Float[np.ndarray, "null head"]
    sinks: Float[np.ndarray, "head"] | None = None

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return len(self.curve)

    @property
    def alone(self) -> Float[np.ndarray, "head"]:
        """The share of distance alone."""
        return self.share[DISTANCE_TERMS.index("d")]

    def table(self) -> pd.DataFrame:
        """One row a head: the shares of the four terms, and the standard deviation of scores."""
        rows = dict(zip(DISTANCE_TERMS, self.share, strict=True))
        return pd.DataFrame({**rows, "standard deviation": self.spread}).rename_axis("head")

    def near_share(self, near: int, null: bool = False) -> Float[np.ndarray, "head"]:
        """Attention by the last term alone on the nearest keys, over all distances: [head].

        near: how many keys; null: of the permuted weights. Raises `ShapeError` for no key, or more
        than there are distances.
        """
        whole_number(near, "near", most=self.curve.shape[1])
        curve = self.null_curve if null else self.curve
        return attention_of_curve(curve, self.sinks)[:, :near].sum(axis=1)


@np.errstate(under="ignore")  # a distance far below the best has no share
def attention_of_curve(
    curve: Float[np.ndarray, "head distance"], sinks: Float[np.ndarray, "head"] | None = None
) -> Float[np.ndarray, "head distance"]:
    """Attention if distance alone decided: the softmax of a curve over the scale.

    sinks: learned logits beside those of the keys, which take their share of the 1.
    """
    if sinks is None:
        return softmax(curve, axis=1)
    return softmax(np.column_stack([curve, sinks]), axis=1)[:, :-1]


def by_distance(
    model: RelativeFirstLayer, unigrams: Int[np.ndarray, "vocab"], *, seed: int = 0
) -> ByDistance:
    """The curves and shares of a model, with its nulls; unigrams: how often each token occurs.

    Raises `ShapeError` for another kind of model, or counts of another vocabulary.
    """
    require(model, RelativeFirstLayer, "model")

    def variance_of(layer: RelativeFirstLayer) -> DistanceVariance:
        folded = fold_relative(layer.attention)
        return distance_variance(folded, layer.embeddings, unigrams, range(CONTEXT))

    scale = model.attention.scale
    sinks = model.attention.sinks
    of_model = variance_of(model)
    of_null = variance_of(permuted_weights(model, seed))
    between_keys = of_model.variance.sum(axis=0)
    null_shares = [
        variance_of(permuted).share[DISTANCE_TERMS.index("d")]
        for permuted in permuted_heads(model, seed)
    ]
    return ByDistance(
        curve=of_model.curve / scale,
        null_curve=of_null.curve / scale,
        share=of_model.share,
        spread=np.sqrt(between_keys) / scale,
        constant=of_model.constant / between_keys,
        null_share=np.stack(null_shares),
        sinks=None if sinks is None else sinks.double().numpy(),
    )


def permuted_heads(model: RelativeFirstLayer, seed: int = 0) -> Iterator[RelativeFirstLayer]:
    """`NULLS` models whose query and key weights have their entries in random order.

    The embeddings stay: what is left of a head's result was there before the head.
    """
    return (permuted_weights(model, seed + null, heads_only=True) for null in range(NULLS))
