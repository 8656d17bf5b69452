"""Folding LayerNorm into attention: Kamoda et al. 2025, §3.4 and App. B, as an exact identity.

LN(x) = (x/σ(x)) C diag(γ) + β, so C diag(γ) moves into the weights, β into the biases, and only the
division by σ is left: q(x) = (x/σ) W'_Q + b'_Q. W_QK = W'_Q W'_Kᵀ and W_VO = W'_V W_O have rank at
most d_head; they are kept as their factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.forward import causal_mask
from lnattn.attention.layernorm import center, divide_by_sigma
from lnattn.errors import ShapeError
from lnattn.inputs import Mask, checked_mask, plain_tensor, require
from lnattn.weights import AttentionLayer, Heads


@dataclass(frozen=True, eq=False)
class FoldedAttention(Heads):
    """An attention block whose LayerNorm is folded into its weights. Made by `fold`.

    W_Q, W_K, W_V: [head d_model d_head], C diag(γ) W; W_O: [head d_head d_model], unchanged;
    b_Q: [head d_head], β W_Q + b_Q; b_VO: [d_model], Σ_h (β W_V + b_V) W_O + b_O. There is no
    b_K: it adds the same number to every score of a query, which the softmax ignores.
    eps, scale, causal, window, index: of the block that was folded.

    Its methods raise `ShapeError` for inputs x of another width or dtype than the weights.

    >>> import lnattn
    >>> folded = lnattn.fold(lnattn.load_first_layer("book-gpt2").attention)
    >>> tuple(folded.b_QK.shape), tuple(folded.dense_W_QK(head=3).shape)
    ((8, 256), (256, 256))
    """

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "head d_model d_head"]
    W_V: Float[Tensor, "head d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]
    b_Q: Float[Tensor, "head d_head"]
    b_VO: Float[Tensor, "d_model"]
    eps: float
    scale: float
    causal: bool
    window: int | None = None
    index: int = 0

    @property
    def b_QK(self) -> Float[Tensor, "head d_model"]:
        """b_QK = b'_Q W'_Kᵀ: what a key asserts by itself, whatever the query."""
        return torch.einsum("hk,hdk->hd", self.b_Q, self.W_K)

    def dense_W_QK(self, head: int) -> Float[Tensor, "d_model d_model"]:
        """W_QK = W'_Q W'_Kᵀ of one head as a dense matrix (rank ≤ d_head)."""
        return self.W_Q[head] @ self.W_K[head].T

    def scores(self, x: Float[Tensor, "*batch n d_model"]) -> Float[Tensor, "*batch head n n"]:
        """s_ij = LN'(x_i) W_QK LN'(x_j)ᵀ + b_QK LN'(x_j)ᵀ for all pairs, before `scale` and mask.

        Equal to the original q·k up to a constant per query (Kamoda et al. 2025, Eq. 13).
        """
        u = self.normalised(x)
        queries = torch.einsum("...id,hdk->...hik", u, self.W_Q) + self.b_Q[:, None, :]
        keys = torch.einsum("...jd,hdk->...hjk", u, self.W_K)
        return queries @ keys.transpose(-1, -2)

    def attention(
        self,
        x: Float[Tensor, "*batch n d_model"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch head n n"]:
        """α_ij = softmax_j(s_ij / scale) over the keys a query may see.

        `mask` ``[*batch n]``: True for real tokens, False for padding, which no query attends to.
        """
        return softmax_over_keys(self.scores(x), self.scale, self.causal, mask, self.window)

    def output(
        self,
        x: Float[Tensor, "*batch n d_model"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch n d_model"]:
        """ATTN'(x_i) = Σ_h Σ_j α_hij LN'(x_j) W_VO + b_VO: what the block adds to the residual."""
        return self.head_outputs(x, mask).sum(dim=-3) + self.b_VO

    def head_outputs(
        self,
        x: Float[Tensor, "*batch n d_model"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch head n d_model"]:
        """The summand of each head in `output`, without b_VO."""
        values = torch.einsum("...jd,hdk->...hjk", self.normalised(x), self.W_V)
        return self.attention(x, mask) @ values @ self.W_O

    def normalised(self, x: Tensor) -> Tensor:
        """x/σ(x), which the folded maps read; x: [..., n, d_model], uncentred."""
        x = plain_tensor(x, "x")
        if x.ndim < 2 or x.shape[-1] != self.d_model or x.shape[-2] == 0:
            raise ShapeError(
                f"x must have shape [..., n, {self.d_model}] with n ≥ 1, not {list(x.shape)}."
            )
        if x.dtype != self.W_Q.dtype:
            raise ShapeError(
                f"x is {x.dtype} but the weights are {self.W_Q.dtype}; use .to() on one of them."
            )
        return divide_by_sigma(x, self.eps)


def absorb(
    gamma: Float[Tensor, "d_model"], weight: Float[Tensor, "head d_model d_head"]
) -> Float[Tensor, "head d_model d_head"]:
    """C diag(γ) W: scale the rows by γ, then centre each column, since C acts from the left."""
    return center((gamma[:, None] * weight).transpose(-1, -2)).transpose(-1, -2).contiguous()


def fold(layer: AttentionLayer) -> FoldedAttention:
    """Fold γ, β and the centring matrix of a block's norm into its attention weights.

    Exact for every input, for any layer whose LayerNorm feeds the attention directly. Raises
    `ShapeError` for anything else, such as a block with rotary or relative positions, which
    `fold_relative` takes.

    >>> import lnattn
    >>> folded = fold(lnattn.load_first_layer("book-gpt2").attention)
    >>> tuple(folded.W_Q.shape)  # head, d_model, d_head
    (8, 256, 32)
    """
    require(layer, AttentionLayer, "layer")
    gamma = layer.ln.gamma
    beta = layer.ln.beta
    value_bias = torch.einsum("d,hdk->hk", beta, layer.W_V) + layer.b_V
    return FoldedAttention(
        W_Q=absorb(gamma, layer.W_Q),
        W_K=absorb(gamma, layer.W_K),
        W_V=absorb(gamma, layer.W_V),
        W_O=layer.W_O,
        b_Q=torch.einsum("d,hdk->hk", beta, layer.W_Q) + layer.b_Q,
        b_VO=torch.einsum("hk,hkd->d", value_bias, layer.W_O) + layer.b_O,
        eps=layer.ln.eps,
        scale=layer.scale,
        causal=layer.causal,
        window=layer.window,
        index=layer.index,
    )


def first_block(folded: Any) -> FoldedAttention:
    """The block given; `ShapeError` unless it is folded and the first of its model.

    Embeddings are the input of block 0 alone: split by them, a later block's scores would be wrong.
    """
    require(folded, FoldedAttention, "folded")
    if folded.index:
        raise ShapeError(
            f"folded is block {folded.index} of its model, but token and position embeddings are "
            "the input of block 0 alone; fold the attention of load_first_layer(name)."
        )
    return folded


def softmax_over_keys(
    scores: Float[Tensor, "*batch head query key"],
    scale: float,
    causal: bool,
    mask: Mask | None = None,
    window: int | None = None,
    sinks: Float[Tensor, "head"] | None = None,
) -> Float[Tensor, "*batch head query key"]:
    """softmax_j(scores / scale) over the keys that each query may see.

    With `causal`, queries are the last positions of the keys (query i sees keys up to i), and with
    a `window` only the last so many of these. mask ``[*batch key]``: True for the keys that exist.
    sinks: a logit beside those of the keys, which takes its share of the 1 and is left out of what
    is returned. A query that may see no key at all gets zero attention. Raises `ShapeError` for
    scores that are not finite, and for a mask of another shape or of other things than true and
    false.
    """
    queries, keys = scores.shape[-2:]
    every = torch.ones(queries, keys, dtype=torch.bool)
    visible = (causal_mask(queries, keys, window) if causal else every).to(scores.device)
    if mask is not None:
        batch = scores.shape[:-3]
        known = checked_mask(mask, [*batch, keys], " ".join([*["text"] * len(batch), "key"]))
        visible = visible & known.to(scores.device)[..., None, None, :]
    if not math.isfinite(scores.detach().amax()):  # NaN where any score is
        bad = ~scores.isfinite().all(-1).all(-1).reshape(-1, scores.shape[-3]).all(0)
        raise ShapeError(
            f"the scores of head {int(bad.nonzero()[0])} are no finite numbers in {scores.dtype}: "
            "weights or inputs are too large; check them, or use .to(torch.float64)."
        )
    logits = (scores / scale).masked_fill(~visible, -torch.inf)
    if sinks is not None:
        logits = torch.cat([logits, sink_column(logits, sinks)], dim=-1)
    return logits.softmax(dim=-1)[..., :keys].masked_fill(~visible, 0.0)


def sink_column(
    logits: Float[Tensor, "*batch head query key"], sinks: Float[Tensor, "head"]
) -> Float[Tensor, "*batch head query 1"]:
    """The sinks' logits as one more key of every query, to stand after the others."""
    column = sinks.to(logits)[:, None, None]
    return column.expand(*logits.shape[:-1], 1)
