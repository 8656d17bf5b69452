"""The four terms of a first-layer score whose positions are rotary or relative.

With constants q₀, k₀ split off the token's query and key, q = q₀ + q̃ and k = k₀ + k̃, and with
R_Δ that rotates a query against a key at distance Δ = i − j::

    s_ij = q̃_i R_Δ k̃_jᵀ + q̃_i R_Δ k₀ᵀ + q₀ R_Δ k̃_jᵀ + (q₀ R_Δ k₀ᵀ + bias_Δ),

named as the six terms are: `ee`, `ed`, `e`, and `d`, distance alone, which takes the bias of ALiBi
or T5. Learned positions are the case R = I with e + p in place of the token: with q₀ = b_Q and
k₀ = b_K, `ed` and `d` are the same for all keys of a query, so that the softmax ignores them.
Stated before the division by the scale, and before a soft cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import sink_column, softmax_over_keys
from lnattn.attention.forward import causal_mask
from lnattn.attention.terms import PairTerms
from lnattn.errors import ShapeError, TokenError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import require
from lnattn.rotary.fold import FoldedRelative, MeanVectors, mean_vectors
from lnattn.rotary.weights import TokenEmbeddings
from lnattn.weights import check_width

#: Names of the four terms.
DISTANCE_TERMS = ("ee", "ed", "e", "d")


@dataclass(frozen=True, eq=False)
class DistanceTerms(PairTerms):
    """The four terms of one sequence; each is computed when first asked for, then kept.

    folded: the block; queries: [head n d_head], keys: [key_head n d_head], of the tokens, not
    rotated; constants: q₀ and k₀; positions: [n]. ee, ed, e, d: [head query key]. Another name
    raises `TermError`.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> terms = lnattn.distance_terms(folded, model.embeddings, [464, 3290, 318])
    >>> terms.names, tuple(terms.attention(without="d").shape)  # head, query, key
    (('ee', 'ed', 'e', 'd'), (8, 3, 3))
    """

    folded: FoldedRelative
    queries: Float[Tensor, "head n d_head"]
    keys: Float[Tensor, "key_head n d_head"]
    constants: MeanVectors
    positions: Int[Tensor, "n"]

    names = DISTANCE_TERMS

    @cached_property
    def query_parts(self) -> dict[str, Tensor]:
        """The parts of all queries by name, rotated."""
        alone = self.constants.q0[:, None]
        return {
            "e": self.folded.rotated(self.queries - alone, self.positions),
            "": self.folded.rotated(alone.expand_as(self.queries), self.positions),
        }

    @cached_property
    def key_parts(self) -> dict[str, Tensor]:
        """The parts of all keys by name, rotated."""
        alone = self.constants.k0[:, None]
        parts = {"e": self.keys - alone, "d": alone.expand_as(self.keys)}
        return {
            name: self.folded.per_head(self.folded.rotated(part, self.positions))
            for name, part in parts.items()
        }

    def __getitem__(self, name: str) -> Float[Tensor, "head query key"]:
        return self.d if name == "d" else super().__getitem__(name)

    @property
    def ee(self) -> Float[Tensor, "head query key"]:
        """Token with token at their distance: q̃_i R_Δ k̃_jᵀ."""
        return self["ee"]

    @property
    def ed(self) -> Float[Tensor, "head query key"]:
        """The distance that the query's token wants, whatever stands there: q̃_i R_Δ k₀ᵀ."""
        return self["ed"]

    @property
    def e(self) -> Float[Tensor, "head query key"]:
        """The key's token asserts itself at this distance, whatever the query: q₀ R_Δ k̃_jᵀ."""
        return self["e"]

    @cached_property
    def d(self) -> Float[Tensor, "head query key"]:
        """Distance alone: q₀ R_Δ k₀ᵀ, and the bias by distance where the model has one."""
        bias = self.folded.bias
        alone = super().__getitem__("d")
        if bias is None:
            return alone
        distance = self.positions[:, None] - self.positions[None, :]
        return alone + bias(distance).to(alone.dtype)

    def softmax(self, scores: Tensor) -> Tensor:
        """Attention from scores, as the block makes it."""
        folded = self.folded
        return softmax_over_keys(
            folded.capped(scores),
            1.0,
            folded.causal,
            window=folded.window,
            sinks=folded.sinks,
        )


def distance_terms(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    token_ids: TokenIds,
    positions: Int[Tensor, "n"] | Sequence[int] | None = None,
    constants: MeanVectors | None = None,
) -> DistanceTerms:
    """The four terms of a sequence of tokens; positions 0 … n−1 unless given, ascending.

    token_ids, positions: [n].
    constants: q₀ and k₀; the plain means over the vocabulary (`mean_vectors`) unless given. Any
    choice is exact; means weighted by token counts make the terms uncorrelated over text. Raises
    `TokenError` for an id outside the vocabulary, an empty sequence, or positions that are negative
    or do not ascend; `ShapeError` for weights of another kind or width, or constants of another
    shape.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-llama")
    >>> folded = lnattn.fold_relative(model.attention)
    >>> tuple(distance_terms(folded, model.embeddings, [464, 3290, 318]).ed.shape)
    (8, 3, 3)
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    check_width(embeddings.d_model, folded.d_model)
    if constants is not None:
        _check_constants(folded, constants)
    ids = embeddings.checked(token_ids)
    given = torch.arange(len(ids)) if positions is None else positions
    places = torch.from_numpy(whole_ids(given, what="position", of="every text"))
    if places.shape != ids.shape or bool((places.diff() < 1).any()):
        raise TokenError(f"positions must be {len(ids)} ascending whole numbers, one a token.")
    if constants is None:
        constants = mean_vectors(folded, embeddings)
    rows = embeddings.rows(ids)
    return DistanceTerms(
        folded=folded,
        queries=folded.queries(rows),
        keys=folded.keys(rows),
        constants=constants,
        positions=places,
    )


def _check_constants(folded: FoldedRelative, constants: MeanVectors) -> None:
    require(constants, MeanVectors, "constants")
    q0 = list(constants.q0.shape)
    k0 = list(constants.k0.shape)
    wanted_q0 = list(folded.b_Q.shape)
    wanted_k0 = list(folded.b_K.shape)
    if q0 != wanted_q0 or k0 != wanted_k0:
        raise ShapeError(
            f"q0 and k0 must have the shapes {wanted_q0} and {wanted_k0}, not {q0} and {k0}; make "
            "them with mean_vectors(folded, embeddings)."
        )


def distance_divergences(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    token_ids: TokenIds,
    constants: MeanVectors | None = None,
) -> Float[np.ndarray, "term head n"]:
    """KL(α ‖ α without T) in nats for T in the order of `DISTANCE_TERMS`, float32.

    Arguments and errors as of `distance_terms`; the counterpart of `SixTermKL`.
    """
    terms = distance_terms(folded, embeddings, token_ids, constants=constants)
    n = len(terms.positions)
    hidden = ~causal_mask(n, n, folded.window) if folded.causal else torch.zeros(n, n).bool()
    total = terms.scores()

    if folded.sinks is not None:  # one more column, which every query sees
        hidden = torch.cat([hidden, torch.zeros(n, 1).bool()], dim=1)

    def log_attention(scores: Tensor) -> Tensor:
        logits = folded.capped(scores)
        if folded.sinks is not None:
            logits = torch.cat([logits, sink_column(logits, folded.sinks)], dim=-1)
        return logits.masked_fill(hidden, -torch.inf).log_softmax(dim=-1)

    before = log_attention(total)
    alpha = before.exp()
    divergences = []
    for name in DISTANCE_TERMS:
        change = (before - log_attention(total - terms[name])).masked_fill(hidden, 0.0)
        divergences.append((alpha * change).sum(dim=-1).clamp_min(0))
    return torch.stack(divergences).float().numpy()
