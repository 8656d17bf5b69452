"""Token affinity where positions are rotary: T^ee at a distance, and its curve over distances.

At the first layer of such a model a query stands in front of the keys turned by its distance from
them, and is otherwise one vector for each token. So at a fixed distance Δ the affinities are again
products of two vectors, q̃_b R_Δ and k̃_a, and whatever is done with T^ee of a model with learned
positions (best partners, ranks, AUROC) is done with these `TokenVectors` as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.relative import Constants, FoldedRelative, mean_vectors
from lnattn.errors import ShapeError, TokenError
from lnattn.relative import TokenEmbeddings
from lnattn.studies.affinity.vectors import TokenVectors

#: Numbers in one block of rows: 64 MiB in float32.
_BLOCK = 1 << 24


def vectors_at_distance(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    distance: int = 1,
    constants: Constants | None = None,
    query_ids: Sequence[int] | Int[Tensor, "n"] | None = None,
) -> TokenVectors:
    """q̃ R_Δ and k̃ of every token: the two factors of T^ee at distance Δ = i − j.

    constants: q₀ and k₀ (`mean_vectors` unless given). query_ids: only these query tokens. Reads
    the embeddings in blocks; where few queries are asked for, only theirs are made. Raises
    `TokenError` for a distance that no query sees, and for unknown tokens.
    """
    if distance < 0 and folded.causal:
        raise TokenError(f"no query of a causal model sees a key at distance {distance}.")
    if folded.window is not None and distance >= folded.window:
        raise TokenError(
            f"this layer sees {folded.window} keys, so none is {distance} before its query."
        )
    constants = mean_vectors(folded, embeddings) if constants is None else constants
    # The query stands at Δ and the key at 0, or, for a key that comes later, the other way round.
    here, there = max(distance, 0), max(-distance, 0)
    tokens = None if query_ids is None else torch.unique(torch.as_tensor(query_ids).long())
    if tokens is not None:
        tokens = embeddings.checked(tokens)
    asked = torch.arange(embeddings.vocab_size) if tokens is None else tokens
    queries = _rows(folded, embeddings, asked, constants.q0, "queries", here)
    every = torch.arange(embeddings.vocab_size)
    keys = _rows(folded, embeddings, every, constants.k0, "keys", there)
    return TokenVectors(queries, keys, tokens)


def _rows(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    ids: Int[Tensor, "n"],
    alone: Float[Tensor, "some d_head"],
    side: str,
    position: int,
) -> Float[Tensor, "some n d_head"]:
    """Queries or keys of tokens less their constant part, turned as at one position."""
    out = alone.new_empty(len(alone), len(ids), folded.d_head)
    step = max(1, _BLOCK // max(folded.d_model, len(alone) * folded.d_head))
    begin = 0
    for some in ids.split(step):
        made = getattr(folded, side)(embeddings.rows(some)) - alone[:, None]
        places = torch.full((len(some),), position)
        out[:, begin : begin + len(some)] = folded.turned(made, places)
        begin += len(some)
    return out


def curve_over_distance(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    pairs: Sequence[tuple[int, int]],
    distances: Sequence[int],
    constants: Constants | None = None,
) -> Float[Tensor, "pair head distance"]:
    """T^ee of given (query, key) tokens at several distances ≥ 0, before the scale.

    A model that stretches its angles in long texts does so as for a text of the longest distance.
    """
    if not pairs or not distances or min(distances) < 0:
        raise ShapeError("a curve needs one pair or more, and distances ≥ 0.")
    constants = mean_vectors(folded, embeddings) if constants is None else constants
    ids = embeddings.checked([token for pair in pairs for token in pair]).view(-1, 2)
    places = torch.tensor(list(distances))
    queries = folded.queries(embeddings.rows(ids[:, 0])) - constants.q0[:, None]
    keys = folded.keys(embeddings.rows(ids[:, 1])) - constants.k0[:, None]
    keys = folded.per_head(folded.turned(keys, torch.zeros(len(ids), dtype=torch.long)))
    # [head pair distance d_head]: every query at every distance.
    turned = folded.turned(queries[:, :, None].expand(-1, -1, len(places), -1), places)
    return torch.einsum("hpnd,hpd->phn", turned, keys)
