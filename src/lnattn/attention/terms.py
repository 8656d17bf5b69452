"""The six terms of a first-layer attention score: Kamoda et al. 2025, §3.5.

With x_i = e_i + p_i and σ_i = σ(x_i), the folded score is exactly
s_ij = T^ee + T^ep + T^pe + T^pp + T^e + T^p. The first letter belongs to the query, the second to
the key; one letter means a key that asserts itself. The terms are stated *before* the division by
√d_head, as in the paper.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block, softmax_over_keys
from lnattn.attention.layernorm import sigma
from lnattn.errors import ShapeError, TermError, TokenError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import real_number, require
from lnattn.weights import Embeddings

#: Names of the six terms in the order of the paper.
TERMS = ("ee", "ep", "pe", "pp", "e", "p")


class PairTerms:
    """A score as a sum of terms: every part of the query with every part of the key.

    A term is named by the query's part and then the key's. The part named '' is what all queries of
    a head have in common. Learned positions give six terms (`SixTerms`), others four
    (`lnattn.rotary`).
    """

    #: Names of the terms, in order.
    names: ClassVar[tuple[str, ...]]
    #: The block whose scores are split: `FoldedAttention`, or `FoldedRelative`.
    folded: Any

    @property
    def query_parts(self) -> Mapping[str, Float[Tensor, "head query d_head"]]:
        """The parts of all queries by name, each a single letter or ''."""
        raise NotImplementedError

    @property
    def key_parts(self) -> Mapping[str, Float[Tensor, "head key d_head"]]:
        """The parts of all keys by name, each a single letter."""
        raise NotImplementedError

    def softmax(self, scores: Tensor) -> Tensor:
        """Attention from scores, as the block makes it."""
        raise NotImplementedError

    @cached_property
    def _computed(self) -> dict[str, Tensor]:
        return {}

    def __getitem__(self, name: str) -> Float[Tensor, "head query key"]:
        self._check(name)
        if name not in self._computed:
            query = self.query_parts[name[:-1]]
            key = self.key_parts[name[-1]]
            # A part without an axis of queries is the same for all of them: [head 1 key].
            term = query @ key.mT
            self._computed[name] = term.expand(-1, key.shape[1], -1)
        return self._computed[name]

    def scores(self, without: str | None = None) -> Float[Tensor, "head query key"]:
        """The sum of the terms (or of all but one, `without` it): scores before the scale."""
        if without is not None:
            self._check(without)
        return reduce(torch.add, (self[name] for name in self.names if name != without))

    def attention(self, without: str | None = None) -> Float[Tensor, "head query key"]:
        """softmax_j(scores / scale); `without` a term, the α^{−T} of Kamoda et al. §6.1.

        Raises `TermError` for a name that is no term.
        """
        return self.softmax(self.scores(without))

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise TermError(f"there is no term {name!r}; there are {', '.join(self.names)}.")


@dataclass(frozen=True, eq=False)
class SixTerms(PairTerms):
    """The six terms of one sequence; each is computed when first asked for, then held.

    folded: the block; tokens, positions: the two summands of every input vector. ee, ep, pe, pp, e,
    p: [head query key], divided by σ but not by √d_head; no causal query uses those above the
    diagonal. Another name raises `TermError`.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> terms = lnattn.six_terms(lnattn.fold(model.attention), model.embeddings, [464, 3290])
    >>> terms.names, tuple(terms.pp.shape)  # head, query, key
    (('ee', 'ep', 'pe', 'pp', 'e', 'p'), (8, 2, 2))
    """

    folded: FoldedAttention
    tokens: Float[Tensor, "n d_model"]
    positions: Float[Tensor, "n d_model"]

    names = TERMS

    @cached_property
    def sigma(self) -> Float[Tensor, "n"]:
        """σ_i = σ(e_i + p_i), the divisor of both parts of input i."""
        return sigma(self.tokens + self.positions, self.folded.eps)

    @cached_property
    def query_parts(self) -> dict[str, Tensor]:
        """q_i = e_i W_Q/σ_i + p_i W_Q/σ_i + b_Q."""
        return {**self._projected(self.folded.W_Q), "": self.folded.b_Q[:, None]}

    @cached_property
    def key_parts(self) -> dict[str, Tensor]:
        """k_j = e_j W_K/σ_j + p_j W_K/σ_j; b_K has no effect."""
        return self._projected(self.folded.W_K)

    @property
    def ee(self) -> Float[Tensor, "head query key"]:
        """T^ee, token compared with token: e_i W_QK e_jᵀ / (σ_i σ_j)."""
        return self["ee"]

    @property
    def ep(self) -> Float[Tensor, "head query key"]:
        """T^ep, the query's token against the key's position: e_i W_QK p_jᵀ / (σ_i σ_j)."""
        return self["ep"]

    @property
    def pe(self) -> Float[Tensor, "head query key"]:
        """T^pe, the query's position against the key's token: p_i W_QK e_jᵀ / (σ_i σ_j)."""
        return self["pe"]

    @property
    def pp(self) -> Float[Tensor, "head query key"]:
        """T^pp, position compared with position: p_i W_QK p_jᵀ / (σ_i σ_j)."""
        return self["pp"]

    @property
    def e(self) -> Float[Tensor, "head query key"]:
        """T^e, the key's token asserts itself: b_QK e_jᵀ / σ_j, the same for every query."""
        return self["e"]

    @property
    def p(self) -> Float[Tensor, "head query key"]:
        """T^p, the key's position asserts itself: b_QK p_jᵀ / σ_j, the same for every query."""
        return self["p"]

    def _projected(self, W: Float[Tensor, "head d_model d_head"]) -> dict[str, Tensor]:
        divisor = self.sigma[:, None]
        return {"e": (self.tokens / divisor) @ W, "p": (self.positions / divisor) @ W}

    def softmax(self, scores: Tensor) -> Tensor:
        """Attention from scores, as the block makes it."""
        folded = self.folded
        return softmax_over_keys(scores, folded.scale, folded.causal, window=folded.window)


def six_terms(
    folded: FoldedAttention,
    embeddings: Embeddings,
    token_ids: TokenIds,
    positions: Int[Tensor, "n"] | Sequence[int] | None = None,
) -> SixTerms:
    """The six terms of a sequence of tokens; positions 0 … n−1 unless given.

    folded: the first layer's block, from `fold`; token_ids: [n]; positions: [n]. Kamoda et al.
    2025, §3.5. Raises `TokenError` for an id outside the vocabulary, a position outside the
    context, an empty sequence, or a partial checkpoint that has no token embeddings; `ShapeError`
    for weights of another kind, width or dtype. Warns where the embeddings' means are so large that
    rounding shows.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> terms = six_terms(lnattn.fold(model.attention), model.embeddings, [464, 3290, 318])
    >>> tuple(terms.attention().shape)  # head, query, key
    (8, 3, 3)
    """
    first_block(folded)
    tokens, places = input_rows(embeddings, token_ids, positions)
    if (tokens.shape[1], tokens.dtype) != (folded.d_model, folded.W_Q.dtype):
        raise ShapeError(
            f"the embeddings are {tokens.dtype} of width {tokens.shape[1]}, the attention block "
            f"{folded.W_Q.dtype} of width {folded.d_model}; take both from one model, in one dtype."
        )
    warn_of_rounding(tokens + places)
    return SixTerms(folded, tokens, places)


#: A mean of so many σ costs that many units in the last place of a score.
_LARGE_MEAN = 300.0


def warn_of_rounding(x: Float[Tensor, "n d_model"]) -> None:
    """Warn where the inputs' means are so much larger than their σ that float32 loses the scores.

    The folded weights take the mean away; before that it is there, and is rounded.
    """
    if x.dtype != torch.float32:
        return
    mean = x.mean(dim=-1).abs()
    spread = x.std(dim=-1, correction=0)
    worst = float((mean / spread.clamp_min(torch.finfo(x.dtype).tiny)).max())
    if worst > _LARGE_MEAN:
        warnings.warn(
            f"the embeddings' mean is {worst:.0f} times their standard deviation, so float32 "
            "rounds the scores; use .to(torch.float64) on the model.",
            stacklevel=3,
        )


def input_rows(
    embeddings: Embeddings,
    token_ids: TokenIds,
    positions: Int[Tensor, "n"] | Sequence[int] | None = None,
) -> tuple[Float[Tensor, "n d_model"], Float[Tensor, "n d_model"]]:
    """Rows of W_E and W_P for a sequence, after checking every index.

    Two tensors [n d_model]. Raises `TokenError` for an id outside the vocabulary, a position
    outside the context, lists of two lengths, or a checkpoint without token embeddings.
    """
    require(embeddings, Embeddings, "embeddings")
    tokens = embeddings.tokens()
    ids = check_indices(token_ids, embeddings.vocab_size, "token id", "the vocabulary")
    given = torch.arange(len(ids)) if positions is None else positions
    places = check_indices(given, embeddings.n_positions, "position", "the context")
    if len(ids) != len(places):
        raise TokenError(
            f"token ids and positions must be lists of one length, not of {len(ids)} and "
            f"{len(places)}."
        )
    return tokens[ids], embeddings.W_P[places]


def check_indices(indices: Any, size: int, what: str, of: str) -> Int[Tensor, "n"]:
    """The indices as a tensor; `TokenError` unless they are whole numbers in 0 … size − 1."""
    return torch.from_numpy(whole_ids(indices, size, what, of))


def sigma_of_pairs(
    embeddings: Embeddings,
    token_ids: TokenIds,
    positions: Int[Tensor, "m"] | list[int],
    eps: float,
) -> Float[Tensor, "n m"]:
    """σ(e_v + p_j) of every given token at every given position, without adding the vectors.

    token_ids: [n]; positions: [m]; eps: ε ≥ 0, added to the variance.
    σ² = Var(e_v) + Var(p_j) + 2 Cov(e_v, p_j) + ε: one matrix product for the covariances (Kamoda
    et al. 2025, §6.3). Where rounding would make the variance negative, it is 0. Raises
    `TokenError` for ids or positions that the model does not have, `ShapeError` for ε < 0.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> sigma = sigma_of_pairs(model.embeddings, [464, 3290], [0, 1, 2], eps=1e-5)
    >>> tuple(sigma.shape)  # token, position
    (2, 3)
    """
    require(embeddings, Embeddings, "embeddings")
    real_number(eps, "eps", least=0)
    tokens = embeddings.tokens()
    ids = check_indices(token_ids, embeddings.vocab_size, "token id", "the vocabulary")
    places = check_indices(positions, embeddings.n_positions, "position", "the context")
    e = tokens[ids]
    p = embeddings.W_P[places]
    e = e - e.mean(dim=-1, keepdim=True)
    p = p - p.mean(dim=-1, keepdim=True)
    d = e.shape[-1]
    variance = e.square().sum(-1)[:, None] + p.square().sum(-1)[None, :] + 2 * (e @ p.T)
    return (variance.clamp_min(0) / d + eps).sqrt()
