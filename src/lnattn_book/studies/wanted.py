"""Which query tokens want the token before, by the weights alone: the term `ed` at distance 1.

T^ed = q̃ R_Δ k₀ᵀ is a curve over the distance for each query token. How much higher it stands at
distance 1 than farther back is linear in the query: q̃ · w, with one vector w a head, made of k₀ and
the rotation. k₀ turned by random angles has the same length in every plane of the rotation, and so
the same frequencies at the same strengths: what is left to chance is where they meet.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.ids import TokenIds
from lnattn.inputs import require, whole_number
from lnattn.rotary.fold import FoldedRelative, MeanVectors
from lnattn.rotary.weights import TokenEmbeddings, apply_rotary

#: The farthest of the distances with which distance 1 is compared.
FAR = 32


def back_directions(
    folded: FoldedRelative, constants: MeanVectors, far: int = FAR
) -> Float[Tensor, "head d_head"]:
    """w of each head: q̃ · w is T^ed at distance 1 less its mean over the distances 2 … far.

    Before the division by the scale, as all terms are. Raises `ShapeError` for weights of another
    kind, or a far below 2.
    """
    require(folded, FoldedRelative, "folded")
    require(constants, MeanVectors, "constants")
    whole_number(far, "far", least=2)
    k0 = folded.at_origin(constants.k0[:, None])[:, 0]
    basis = torch.eye(folded.d_head, dtype=k0.dtype)
    turned = folded.at_distances(basis[None], torch.arange(1, far + 1))[0]  # [row distance d_head]
    scores = torch.einsum("rnd,hd->hrn", turned, k0)
    return scores[..., 0] - scores[..., 1:].mean(dim=-1)


def wants_the_token_before(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    token_ids: TokenIds,
    constants: MeanVectors,
    far: int = FAR,
) -> Float[Tensor, "head n"]:
    """T^ed of each query token at distance 1 less its mean over 2 … far, over the scale: nats.

    token_ids: [n]; constants: q₀ and k₀, from `mean_vectors`. Raises `TokenError` for ids outside
    the vocabulary, `ShapeError` as `back_directions`.

    >>> import lnattn
    >>> from lnattn.rotary.fold import mean_vectors
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> constants = mean_vectors(folded, model.embeddings)
    >>> wanted = wants_the_token_before(folded, model.embeddings, [464, 3290, 318], constants)
    >>> tuple(wanted.shape)  # head, token
    (8, 3)
    """
    directions = back_directions(folded, constants, far)
    require(embeddings, TokenEmbeddings, "embeddings")
    rows = embeddings.rows(embeddings.checked(token_ids))
    queries = folded.queries(rows) - constants.q0[:, None]
    return torch.einsum("hnd,hd->hn", queries, directions) / folded.scale


def turned_constants(folded: FoldedRelative, constants: MeanVectors, seed: int) -> MeanVectors:
    """The same constants, k₀ turned by an angle drawn for each plane of the rotation: a null.

    Raises `ShapeError` where nothing rotates.
    """
    require(folded, FoldedRelative, "folded")
    require(constants, MeanVectors, "constants")
    if folded.rotation is None:
        raise ShapeError("these queries and keys are not rotated; take a model that rotates them.")
    cos, _ = folded.rotation.tables(torch.arange(1), constants.k0.dtype)
    shape = (len(constants.k0), cos.shape[1] // 2)
    generator = torch.Generator().manual_seed(seed)
    angles = 2 * torch.pi * torch.rand(shape, generator=generator, dtype=torch.float64)
    angles = angles.to(constants.k0.dtype)
    if folded.rotation.interleaved:
        angles = angles.repeat_interleave(2, dim=1)
    else:
        angles = torch.cat([angles, angles], dim=1)
    k0 = apply_rotary(constants.k0, angles.cos(), angles.sin(), folded.rotation.interleaved)
    return replace(constants, k0=k0)
