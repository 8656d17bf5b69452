"""The six terms of a first-layer attention score: Kamoda et al. 2025, §3.5.

With x_i = e_i + p_i and σ_i = σ(x_i), the folded score is exactly
s_ij = T^ee + T^ep + T^pe + T^pp + T^e + T^p. The first letter belongs to the query, the second to
the key; one letter means a key that asserts itself. The terms are stated *before* the division by
√d_head, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, softmax_over_keys
from lnattn.attention.layernorm import sigma
from lnattn.errors import ShapeError, TokenError
from lnattn.models.layers import Embeddings

#: Names of the six terms in the order of the paper.
TERMS = ("ee", "ep", "pe", "pp", "e", "p")


@dataclass(frozen=True, eq=False)
class SixTerms:
    """The six terms of one sequence; each is computed when first asked for, then kept.

    folded: the block; tokens, positions: [n d_model], the two summands of every input vector.
    ee, ep, pe, pp, e, p: [head query key], divided by σ but not by √d_head. Entries above the
    diagonal of a causal model are defined, but no query ever uses them.
    """

    folded: FoldedAttention
    tokens: Float[Tensor, "n d_model"]
    positions: Float[Tensor, "n d_model"]

    @cached_property
    def sigma(self) -> Float[Tensor, "n"]:
        """σ_i = σ(e_i + p_i), the divisor of both parts of input i."""
        return sigma(self.tokens + self.positions, self.folded.eps)

    @cached_property
    def ee(self) -> Float[Tensor, "head query key"]:
        """T^ee, token compared with token: e_i W_QK e_jᵀ / (σ_i σ_j)."""
        return self._compare(self.tokens, self.tokens)

    @cached_property
    def ep(self) -> Float[Tensor, "head query key"]:
        """T^ep, the query's token against the key's position: e_i W_QK p_jᵀ / (σ_i σ_j)."""
        return self._compare(self.tokens, self.positions)

    @cached_property
    def pe(self) -> Float[Tensor, "head query key"]:
        """T^pe, the query's position against the key's token: p_i W_QK e_jᵀ / (σ_i σ_j)."""
        return self._compare(self.positions, self.tokens)

    @cached_property
    def pp(self) -> Float[Tensor, "head query key"]:
        """T^pp, position compared with position: p_i W_QK p_jᵀ / (σ_i σ_j)."""
        return self._compare(self.positions, self.positions)

    @cached_property
    def e(self) -> Float[Tensor, "head query key"]:
        """T^e, the key's token asserts itself: b_QK e_jᵀ / σ_j, the same for every query."""
        return self._assert(self.tokens)

    @cached_property
    def p(self) -> Float[Tensor, "head query key"]:
        """T^p, the key's position asserts itself: b_QK p_jᵀ / σ_j, the same for every query."""
        return self._assert(self.positions)

    def __getitem__(self, name: str) -> Float[Tensor, "head query key"]:
        if name not in TERMS:
            raise KeyError(f"there is no term {name!r}; the six are {', '.join(TERMS)}")
        return getattr(self, name)

    def scores(self, without: str | None = None) -> Float[Tensor, "head query key"]:
        """The sum of the six terms (or of five, `without` one): pre-softmax scores."""
        return sum(self[name] for name in TERMS if name != without)  # type: ignore[return-value]

    def attention(self, without: str | None = None) -> Float[Tensor, "head query key"]:
        """softmax_j(scores / √d_head); `without` a term, the α^{−T} of Kamoda et al. §6.1."""
        if without is not None and without not in TERMS:
            raise KeyError(f"there is no term {without!r}; the six are {', '.join(TERMS)}")
        folded = self.folded
        return softmax_over_keys(
            self.scores(without), folded.scale, folded.causal, window=folded.window
        )

    def _compare(self, query: Tensor, key: Tensor) -> Tensor:
        queries = (query / self.sigma[:, None]) @ self.folded.W_Q
        keys = (key / self.sigma[:, None]) @ self.folded.W_K
        return queries @ keys.transpose(-1, -2)

    def _assert(self, key: Tensor) -> Tensor:
        row = self.folded.b_QK @ (key / self.sigma[:, None]).T
        return row[:, None, :].expand(-1, len(key), -1)


def six_terms(
    folded: FoldedAttention,
    embeddings: Embeddings,
    token_ids: Int[Tensor, "n"] | list[int],
    positions: Int[Tensor, "n"] | list[int] | None = None,
) -> SixTerms:
    """The six terms of a sequence of tokens; positions 0 … n−1 unless given.

    Raises `TokenError` for an id outside the vocabulary, a position outside the context, an empty
    sequence, or a partial checkpoint that has no token embeddings.
    """
    tokens, places = look_up(embeddings, token_ids, positions)
    return six_terms_of_rows(folded, tokens, places)


def six_terms_of_rows(
    folded: FoldedAttention,
    tokens: Float[Tensor, "n d_model"],
    positions: Float[Tensor, "n d_model"],
) -> SixTerms:
    """The six terms for arbitrary rows in place of token and position embeddings."""
    expected = (tokens.shape[0], folded.d_model)
    if tokens.ndim != 2 or tokens.shape != expected or positions.shape != expected:
        raise ShapeError(
            f"token and position rows must both have shape [n, {folded.d_model}], not "
            f"{list(tokens.shape)} and {list(positions.shape)}."
        )
    return SixTerms(folded, tokens, positions)


def look_up(
    embeddings: Embeddings,
    token_ids: Int[Tensor, "n"] | list[int],
    positions: Int[Tensor, "n"] | list[int] | None = None,
) -> tuple[Float[Tensor, "n d_model"], Float[Tensor, "n d_model"]]:
    """Rows of W_E and W_P for a sequence, after checking every index."""
    if embeddings.W_E is None:
        raise TokenError(
            "this checkpoint has no token embeddings, so only position terms can be computed; "
            "load a complete model for terms that involve tokens."
        )
    ids = torch.as_tensor(token_ids, dtype=torch.long)
    places = (
        torch.arange(len(ids)) if positions is None else torch.as_tensor(positions).to(torch.long)
    )
    if ids.ndim != 1 or ids.shape != places.shape or len(ids) == 0:
        raise TokenError(
            f"token ids and positions must be two non-empty lists of one length, not shapes "
            f"{list(ids.shape)} and {list(places.shape)}."
        )
    check_indices(ids, embeddings.vocab_size, "token id", "the vocabulary")
    check_indices(places, embeddings.n_positions, "position", "the context")
    return embeddings.W_E[ids], embeddings.W_P[places]


def check_indices(indices: Tensor, size: int, what: str, of: str) -> None:
    """Raise `TokenError` unless all indices are in 0 … size − 1."""
    wrong = indices[(indices < 0) | (indices >= size)]
    if len(wrong):
        raise TokenError(
            f"{what} {int(wrong[0])} is outside {of} of this model, which has {size}; "
            f"use 0 to {size - 1}."
        )


def sigma_of_pairs(
    embeddings: Embeddings,
    token_ids: Int[Tensor, "n"] | list[int],
    positions: Int[Tensor, "m"] | list[int],
    eps: float,
) -> Float[Tensor, "n m"]:
    """σ(e_v + p_j) of every given token at every given position, without adding the vectors.

    σ² = Var(e_v) + Var(p_j) + 2 Cov(e_v, p_j) + ε: one matrix product for the covariances. Where
    the variances nearly cancel (e_v ≈ −p_j) rounding could make the sum negative; it is clamped
    to ε, which is then also the exact value to working precision.
    """
    if embeddings.W_E is None:
        raise TokenError("this checkpoint has no token embeddings, so σ of a pair is unknown.")
    ids = torch.as_tensor(token_ids, dtype=torch.long)
    places = torch.as_tensor(positions, dtype=torch.long)
    check_indices(ids, embeddings.vocab_size, "token id", "the vocabulary")
    check_indices(places, embeddings.n_positions, "position", "the context")
    e = embeddings.W_E[ids]
    p = embeddings.W_P[places]
    e, p = e - e.mean(dim=-1, keepdim=True), p - p.mean(dim=-1, keepdim=True)
    d = e.shape[-1]
    variance = e.square().sum(-1)[:, None] + p.square().sum(-1)[None, :] + 2 * (e @ p.T)
    return (variance.clamp_min(0) / d + eps).sqrt()
