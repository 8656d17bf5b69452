"""Folding the norm of a block with relative positions, and the query and key of every token.

LayerNorm folds as in `lnattn.attention.folding`. RMSNorm folds with C = I and
ρ(x) = √(mean(x²) + ε) in place of σ: γ goes into the weights, and there is no β. The bias of the
keys stays: with rotated queries it adds another number to the score of every key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from lnattn.attention.folding import absorb
from lnattn.attention.layernorm import sigma
from lnattn.errors import ShapeError
from lnattn.inputs import require
from lnattn.rotary.weights import (
    DistanceBias,
    HeadNorm,
    RelativeAttention,
    Rotation,
    TokenEmbeddings,
    apply_rotary,
)
from lnattn.stats import blocks
from lnattn.weights import Heads, LayerNorm, check_width

#: What is left of a norm: x/σ(x), x/ρ(x), or nothing.
Divisor = Literal["sigma", "rho", "none"]
#: Numbers in one block of projected tokens: 64 MiB in float32.
_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class FoldedRelative(Heads):
    """A block with relative positions whose norm is folded into its weights (`fold_relative`).

    W_Q, W_K: C diag(γ) W with C = I for an RMSNorm; b_Q, b_K: β W + b. The other fields are those
    of `RelativeAttention`.
    """

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "key_head d_model d_head"]
    b_Q: Float[Tensor, "head d_head"]
    b_K: Float[Tensor, "key_head d_head"]
    divisor: Divisor
    eps: float
    scale: float
    norm_Q: HeadNorm | None
    norm_K: HeadNorm | None
    clip: float | None
    rotation: Rotation | None
    bias: DistanceBias | None
    soft_cap: float | None
    sinks: Float[Tensor, "head"] | None
    window: int | None
    causal: bool

    def norm_scale(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "n"]:
        """σ(x) or ρ(x) of every token; 1 where the block has no norm."""
        if self.divisor == "sigma":
            return sigma(x, self.eps)
        if self.divisor == "rho":
            # A norm makes no square of x first, which for a vocabulary would be a pass more.
            return (torch.linalg.vector_norm(x, dim=-1).square() / x.shape[1] + self.eps).sqrt()
        return x.new_ones(len(x))

    def queries(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "head n d_head"]:
        """The query of each token in each head, before it is rotated."""
        return self._project(x, self.W_Q, self.b_Q, self.norm_Q)

    def keys(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "key_head n d_head"]:
        """The key of each token in each key head, before it is rotated."""
        return self._project(x, self.W_K, self.b_K, self.norm_K)

    def per_head(self, keys: Shaped[Tensor, "key_head *rest"]) -> Shaped[Tensor, "head *rest"]:
        """Keys repeated for every query head of their group."""
        return keys.repeat_interleave(self.n_heads // len(self.W_K), dim=0)

    def rotated(
        self, x: Float[Tensor, "*batch n d_head"], positions: Tensor
    ) -> Float[Tensor, "*batch n d_head"]:
        """x R: row m rotated as at positions[m]; x itself where there is no rotation (R = I).

        A score (q R_i)(k R_j)ᵀ depends on i − j alone, but for the rounding of the tables, which
        transformers computes in single precision.
        """
        if self.rotation is None:
            return x
        cos, sin = self.rotation.tables(positions, x.dtype)
        return apply_rotary(x, cos, sin, self.rotation.interleaved)

    def at_origin(self, keys: Float[Tensor, "key_head n d_head"]) -> Float[Tensor, "head n d_head"]:
        """Keys at position 0, for every query head: a query at Δ then sees them at distance Δ."""
        return self.per_head(self.rotated(keys, torch.zeros(keys.shape[1], dtype=torch.long)))

    def at_distances(
        self, queries: Float[Tensor, "head n d_head"], distances: Tensor
    ) -> Float[Tensor, "head n distance d_head"]:
        """Every query rotated as at every distance from position 0."""
        return self.rotated(queries[:, :, None].expand(-1, -1, len(distances), -1), distances)

    def capped(self, scores: Tensor) -> Tensor:
        """Scores divided by the scale, and bent by the soft cap where there is one."""
        scores = scores / self.scale
        return scores if self.soft_cap is None else self.soft_cap * (scores / self.soft_cap).tanh()

    def blocks(self, n: int) -> Iterator[slice]:
        """Slices of n tokens, each short enough to be projected at once."""
        return blocks(n, max(self.d_model, self.n_heads * self.d_head), _BLOCK)

    def _project(self, x: Tensor, W: Tensor, b: Tensor, norm: HeadNorm | None) -> Tensor:
        x = x if self.divisor == "none" else x / self.norm_scale(x)[:, None]
        heads, _, d_head = W.shape
        # The weights of all heads side by side, so that one product serves them all.
        flat = x @ W.transpose(0, 1).reshape(self.d_model, -1)
        out = flat.reshape(len(x), heads, d_head).transpose(0, 1) + b[:, None]
        if self.clip is not None:
            out = out.clamp(-self.clip, self.clip)
        return out if norm is None else norm(out)


def fold_relative(layer: RelativeAttention) -> FoldedRelative:
    """A block with relative positions, its norm folded: exact, tested in float64 to 1e-10.

    layer: the `attention` of a rotary or relative first layer. Raises `ShapeError` for anything
    else, such as a block of learned positions, which `fold` takes.

    >>> import lnattn
    >>> folded = fold_relative(lnattn.load_first_layer("book-llama").attention)
    >>> folded.divisor, tuple(folded.W_Q.shape), tuple(folded.W_K.shape)  # heads share keys
    ('rho', (8, 256, 32), (2, 256, 32))
    """
    require(layer, RelativeAttention, "layer")
    W_Q = layer.W_Q
    W_K = layer.W_K
    b_Q = layer.b_Q
    b_K = layer.b_K
    ln = layer.ln
    divisor: Divisor = "none"
    if isinstance(ln, LayerNorm):
        divisor = "sigma"
        b_Q = torch.einsum("d,hdk->hk", ln.beta, W_Q) + b_Q
        b_K = torch.einsum("d,hdk->hk", ln.beta, W_K) + b_K
        W_Q = absorb(ln.gamma, W_Q)
        W_K = absorb(ln.gamma, W_K)
    elif ln is not None:
        divisor = "rho"
        W_Q = ln.gamma[:, None] * W_Q
        W_K = ln.gamma[:, None] * W_K
    return FoldedRelative(
        W_Q=W_Q,
        W_K=W_K,
        b_Q=b_Q,
        b_K=b_K,
        divisor=divisor,
        eps=0.0 if ln is None else ln.eps,
        scale=layer.scale,
        norm_Q=layer.norm_Q,
        norm_K=layer.norm_K,
        clip=layer.clip,
        rotation=layer.rotation,
        bias=layer.bias,
        soft_cap=layer.soft_cap,
        sinks=layer.sinks,
        window=layer.window,
        causal=layer.causal,
    )


@dataclass(frozen=True, eq=False)
class MeanVectors:
    """The parts q₀ and k₀ that are split off all queries and keys of a layer.

    q0: [head d_head]; k0: [key_head d_head]. The terms add up whatever they are.
    """

    q0: Float[Tensor, "head d_head"]
    k0: Float[Tensor, "key_head d_head"]


def mean_vectors(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Shaped[Tensor, "vocab"] | None = None,
) -> MeanVectors:
    """The mean query and key over the vocabulary, weighted by `counts` where they are given.

    They hold the biases. Where nothing normalises or clips queries and keys, they are the query and
    the key of the mean x/ρ(x). Raises `ShapeError` for counts that are no weights of this
    vocabulary, and for weights of another kind or width.
    """
    require(folded, FoldedRelative, "folded")
    require(embeddings, TokenEmbeddings, "embeddings")
    check_width(embeddings.d_model, folded.d_model)
    vocab = embeddings.vocab_size
    weights = torch.ones(vocab) if counts is None else torch.as_tensor(counts)
    if weights.shape != (vocab,) or not bool((weights >= 0).all()) or not bool(weights.any()):
        raise ShapeError(f"counts must hold a number ≥ 0 for each of {vocab} tokens, not all 0.")
    weights = (weights.double() / weights.double().sum()).to(folded.W_Q.dtype)
    if folded.norm_Q is folded.norm_K is folded.clip is None:
        mean = weights.new_zeros(folded.d_model)
        for block in folded.blocks(vocab):
            rows = embeddings.rows(block)
            mean += (weights[block] / folded.norm_scale(rows)) @ rows
        return MeanVectors(
            q0=mean @ folded.W_Q + folded.b_Q,
            k0=mean @ folded.W_K + folded.b_K,
        )
    q0 = torch.zeros_like(folded.b_Q)
    k0 = torch.zeros_like(folded.b_K)
    for block in folded.blocks(vocab):
        rows = embeddings.rows(block)
        q0 += weights[block] @ folded.queries(rows)
        k0 += weights[block] @ folded.keys(rows)
    return MeanVectors(q0=q0, k0=k0)
