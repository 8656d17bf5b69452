"""Folding the norm of a block with relative positions, and the query and key of every token.

LayerNorm folds as in `folding`. RMSNorm folds with C = I and ρ(x) = √(mean(x²) + ε) in place of
σ: γ goes into the weights, and there is no β. The bias of the keys stays: once queries are turned
against keys it no longer adds the same number to every score (claim K2 is about R = I).
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
from lnattn.attention.rotation import turn
from lnattn.errors import ShapeError
from lnattn.relative import (
    DistanceBias,
    HeadNorm,
    RelativeAttention,
    Rotation,
    TokenEmbeddings,
)
from lnattn.weights import Heads, LayerNorm

#: What is left of a norm: x/σ(x), x/ρ(x), or nothing.
Divisor = Literal["sigma", "rho", "none"]
#: Numbers in one block of projected tokens: 64 MiB in float32.
_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class FoldedRelative(Heads):
    """A block with relative positions whose norm is folded into its weights. Made by `fold`.

    W_Q: [head d_model d_head], W_K: [key_head d_model d_head], C diag(γ) W with C = I for an
    RMSNorm; b_Q, b_K: β W + b. The other fields are those of `RelativeAttention`.
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
    window: int | None
    causal: bool

    @property
    def n_key_heads(self) -> int:
        return self.W_K.shape[0]

    @property
    def is_linear(self) -> bool:
        """Whether queries and keys are linear in x/ρ(x): nothing normalises or clips them."""
        return self.norm_Q is None and self.norm_K is None and self.clip is None

    @property
    def b_QK(self) -> Tensor:
        """There is none: a key's self-assertion b_Q R W_Kᵀ is another one at every distance."""
        raise ShapeError(
            "this model's positions are rotary or relative, so a key asserts itself differently "
            "at every distance and the six terms do not exist; use lnattn.distance_terms."
        )

    def normalised(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "n d_model"]:
        """What is left of the norm once C, γ and β are in the weights."""
        if x.ndim != 2 or x.shape[1] != self.d_model:
            raise ShapeError(f"x must have shape [n, {self.d_model}], not {list(x.shape)}.")
        return x if self.divisor == "none" else x / self.divisors(x)[:, None]

    def divisors(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "n"]:
        """σ(x) or ρ(x) of every token; 1 where the block has no norm."""
        if self.divisor == "sigma":
            return sigma(x, self.eps)
        if self.divisor == "rho":
            # A norm makes no square of x first, which for a vocabulary would be a pass more.
            return (torch.linalg.vector_norm(x, dim=-1).square() / x.shape[1] + self.eps).sqrt()
        return x.new_ones(len(x))

    def queries(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "head n d_head"]:
        """The query of each token in each head, before it is turned."""
        return self._project(x, self.W_Q, self.b_Q, self.norm_Q)

    def keys(self, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "key_head n d_head"]:
        """The key of each token in each key head, before it is turned."""
        return self._project(x, self.W_K, self.b_K, self.norm_K)

    def per_head(self, keys: Shaped[Tensor, "key_head *rest"]) -> Shaped[Tensor, "head *rest"]:
        """Keys repeated for every query head of their group."""
        return keys.repeat_interleave(self.n_heads // self.n_key_heads, dim=0)

    def turned(
        self, x: Float[Tensor, "*batch n d_head"], positions: Tensor
    ) -> Float[Tensor, "*batch n d_head"]:
        """Queries or keys turned as at their positions."""
        return turn(x, positions, self.rotation)

    def capped(self, scores: Tensor) -> Tensor:
        """Scores divided by the scale, and bent by the soft cap where there is one."""
        scores = scores / self.scale
        return scores if self.soft_cap is None else self.soft_cap * (scores / self.soft_cap).tanh()

    def _project(self, x: Tensor, W: Tensor, b: Tensor, norm: HeadNorm | None) -> Tensor:
        heads, _, d_head = W.shape
        flat = self.normalised(x) @ flat_heads(W)
        out = flat.reshape(len(x), heads, d_head).transpose(0, 1) + b[:, None]
        if self.clip is not None:
            out = out.clamp(-self.clip, self.clip)
        return out if norm is None else norm(out)


def flat_heads(W: Float[Tensor, "head d_model d_head"]) -> Float[Tensor, "d_model all_heads"]:
    """The weights of all heads side by side, so that one product serves them all."""
    return W.transpose(0, 1).reshape(W.shape[1], -1)


def fold_relative(layer: RelativeAttention) -> FoldedRelative:
    """`fold` for a block with relative positions: exact, tested in float64 to 1e-10."""
    W_Q, W_K, b_Q, b_K = layer.W_Q, layer.W_K, layer.b_Q, layer.b_K
    ln = layer.ln
    divisor: Divisor = "none"
    if isinstance(ln, LayerNorm):
        divisor = "sigma"
        b_Q = torch.einsum("d,hdk->hk", ln.beta, W_Q) + b_Q
        b_K = torch.einsum("d,hdk->hk", ln.beta, W_K) + b_K
        W_Q, W_K = absorb(ln.gamma, W_Q), absorb(ln.gamma, W_K)
    elif ln is not None:
        divisor = "rho"
        W_Q, W_K = ln.gamma[:, None] * W_Q, ln.gamma[:, None] * W_K
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
        window=layer.window,
        causal=layer.causal,
    )


@dataclass(frozen=True, eq=False)
class Constants:
    """The parts q₀ and k₀ that are split off all queries and keys of a layer.

    q0: [head d_head]; k0: [key_head d_head]. The terms add up whatever they are.
    """

    q0: Float[Tensor, "head d_head"]
    k0: Float[Tensor, "key_head d_head"]


def mean_vectors(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    counts: Shaped[Tensor, "vocab"] | None = None,
) -> Constants:
    """The mean query and key over the vocabulary, weighted by `counts` where they are given.

    They hold the biases. Goes through the vocabulary in blocks; without norms of queries and keys
    one product with the mean of x/ρ(x) is enough.
    """
    weights = _weights(folded, embeddings, counts)
    if folded.is_linear:
        return _linear_pass(folded, embeddings, weights)
    q0, k0 = torch.zeros_like(folded.b_Q), torch.zeros_like(folded.b_K)
    for some in _blocks(folded, embeddings):
        rows = embeddings.rows(some)
        q0 += weights[some] @ folded.queries(rows)
        k0 += weights[some] @ folded.keys(rows)
    return Constants(q0, k0)


def means_and_keys(
    folded: FoldedRelative, embeddings: TokenEmbeddings
) -> tuple[Constants, Float[Tensor, "key_head vocab d_head"]]:
    """`mean_vectors` of all tokens alike, and the keys of all tokens, not turned.

    Without norms of queries and keys in one look at the embeddings.
    """
    keys = folded.W_K.new_empty(folded.n_key_heads, embeddings.vocab_size, folded.d_head)
    if folded.is_linear:
        return _linear_pass(folded, embeddings, _weights(folded, embeddings), keys), keys
    for some in _blocks(folded, embeddings):
        keys[:, some] = folded.keys(embeddings.rows(some))
    return mean_vectors(folded, embeddings), keys


def _linear_pass(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    weights: Float[Tensor, "vocab"],
    keys: Float[Tensor, "key_head vocab d_head"] | None = None,
) -> Constants:
    """The means from that of x/ρ(x); fills `keys` on the way, where they are wanted."""
    mean, W_K = weights.new_zeros(folded.d_model), flat_heads(folded.W_K)
    for some in _blocks(folded, embeddings):
        rows = embeddings.rows(some)
        shrink = 1 / folded.divisors(rows)
        mean += (weights[some] * shrink) @ rows
        if keys is not None:
            # Divided after the product, which has fewer columns than the embeddings.
            made = (rows @ W_K) * shrink[:, None]
            keys[:, some] = made.unflatten(1, (len(keys), -1)).transpose(0, 1)
    if keys is not None:
        keys += folded.b_K[:, None]
    # The norm is done, so the weights are applied by hand.
    return Constants(mean @ folded.W_Q + folded.b_Q, mean @ folded.W_K + folded.b_K)


def _weights(
    folded: FoldedRelative, embeddings: TokenEmbeddings, counts: Tensor | None = None
) -> Float[Tensor, "vocab"]:
    """How much each token counts in a mean; they add up to 1."""
    vocab = embeddings.vocab_size
    weights = torch.ones(vocab) if counts is None else torch.as_tensor(counts)
    if weights.shape != (vocab,) or not bool((weights >= 0).all()) or not bool(weights.any()):
        raise ShapeError(f"counts must hold a number ≥ 0 for each of {vocab} tokens, not all 0.")
    return (weights.double() / weights.double().sum()).to(folded.W_Q.dtype)


def _blocks(folded: FoldedRelative, embeddings: TokenEmbeddings) -> Iterator[slice]:
    """The vocabulary, as slices that are not too large to be projected at once."""
    step = max(1, _BLOCK // max(folded.d_model, folded.n_heads * folded.d_head))
    for begin in range(0, embeddings.vocab_size, step):
        yield slice(begin, min(begin + step, embeddings.vocab_size))
