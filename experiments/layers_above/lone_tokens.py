"""Queries and keys of lone tokens in every layer: what the study of pieces asks above the first.

A token alone (`lnattn.models.alone`) reaches each layer with a query and a key that no other token
has touched. Their products say how much a query token likes a key token there, from weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.vectors import TokenVectors
from lnattn.models.alone import WholeModel, whole_model
from lnattn.models.attending import patched
from lnattn.models.verification import evaluating


@dataclass(frozen=True, eq=False)
class LayerVectors:
    """One layer's queries of some lone tokens and keys of all, and the mean query.

    vectors: biases included, means over the positions asked; mean_query: [head width], over the
    whole vocabulary.
    """

    vectors: TokenVectors
    mean_query: Float[Tensor, "head width"]

    @property
    def centred(self) -> TokenVectors:
        """The same without the mean query, which likes the same keys whatever the token is."""
        whole = self.vectors
        return TokenVectors(whole.queries - self.mean_query[:, None], whole.keys, whole.tokens)


def vectors_of_layers(
    model: Any, query_ids: Sequence[int] | Int[Tensor, "n"]
) -> list[LayerVectors]:
    """Queries of these tokens and keys of the whole vocabulary, in each layer of a model.

    model: as for `context_free`. Where positions are learned, queries and keys are means over two
    positions, at a third and at two thirds of the context; elsewhere the key stands just before
    its query. Raises as `context_free`, and `CheckpointError` for a model whose code does not say
    what its queries and keys are.
    """
    whole = whole_model(model)
    tokens = torch.unique(whole.checked_tokens(query_ids))
    with evaluating(whole.model), patched(whole.model), torch.inference_mode():
        if whole.n_positions is None:
            queries, _ = _at(whole, 1)
            _, keys = _at(whole, 0)
        else:
            queries, keys = _at(whole, whole.n_positions // 3)
            other_queries, other_keys = _at(whole, 2 * whole.n_positions // 3)
            queries = _means(queries, other_queries)
            keys = _means(keys, other_keys)
    return [
        LayerVectors(
            TokenVectors(of_queries[:, tokens].contiguous(), of_keys, tokens),
            of_queries.mean(dim=1),
        )
        for of_queries, of_keys in zip(queries, keys, strict=True)
    ]


def _means(earlier: list[Tensor], later: list[Tensor]) -> list[Tensor]:
    """The mean of what is given at two positions, layer by layer."""
    return [(at_first + at_second) / 2 for at_first, at_second in zip(earlier, later, strict=True)]


def _at(whole: WholeModel, position: int) -> tuple[list[Tensor], list[Tensor]]:
    """Of each layer the queries, and the keys, of all tokens at a position: [head vocab width]."""
    batches = list(whole.queries_and_keys(whole.checked_tokens(None), position))

    def of(side: int) -> list[Tensor]:
        by_layer = zip(*([layer[side] for layer in batch] for batch in batches), strict=True)
        return [torch.cat(parts).transpose(0, 1).contiguous() for parts in by_layer]

    return of(0), of(1)
