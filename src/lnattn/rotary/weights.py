"""The weights of a first layer whose positions stand between query and key.

Rotary positions, ALiBi and T5's buckets are not added to the input: at the first layer a query
depends on its token alone, and so does a key. Conventions as in `lnattn.weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.ids import whole_ids
from lnattn.inputs import real_number, require
from lnattn.weights import (
    AttentionBlock,
    FirstLayer,
    LayerNorm,
    Norm,
    Weights,
    check_tensors,
    check_width,
)

#: A bias by distance: distances i − j (whole numbers, any shape) -> `[head *shape]`.
DistanceBias = Callable[[Tensor], Tensor]
#: Rotation tables: positions [n] and a dtype -> cos and sin, both [n rotated].
Tables = Callable[[Tensor, torch.dtype], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class RMSNorm(Norm):
    """Gain γ and ε of an RMSNorm: x/ρ(x) ⊙ γ with ρ(x)² = mean(x²) + ε; nothing is centred.

    gamma: [d_model], as it multiplies (Gemma stores γ − 1).
    """

    gamma: Float[Tensor, "d_model"]
    eps: float = 1e-6


@dataclass(frozen=True, eq=False)
class HeadNorm(Weights):
    """A norm of queries or of keys, after their projection and before any rotation.

    centred: whether the mean is subtracted; joint: whether all heads of a token are normalised as
    one vector (OLMo-2), and not each by itself (Qwen3, Gemma 3).
    """

    gamma: Float[Tensor, "head d_head"]
    beta: Float[Tensor, "head d_head"]
    eps: float
    centred: bool = False
    joint: bool = False

    def __post_init__(self) -> None:
        check_tensors(self, {"gamma": "head d_head", "beta": "head d_head"})
        real_number(self.eps, "HeadNorm.eps", least=0)

    def __call__(self, x: Float[Tensor, "head n d_head"]) -> Float[Tensor, "head n d_head"]:
        """The normalised queries or keys."""
        axes = (0, 2) if self.joint else (2,)
        if self.centred:
            x = x - x.mean(dim=axes, keepdim=True)
        divisor = (x.square().mean(dim=axes, keepdim=True) + self.eps).sqrt()
        return x / divisor * self.gamma[:, None] + self.beta[:, None]


@dataclass(frozen=True)
class Rotation:
    """The angle by which each pair of coordinates of a query or key is rotated at a position.

    tables: from transformers' own code, a column for each rotated coordinate (the first of a head).
    They depend on the whole list of positions where a model stretches its angles for long texts.
    interleaved: coordinates 2 m and 2 m + 1 rotate together (GPT-J), not m and m + rotated/2.
    """

    tables: Tables
    interleaved: bool = False


def apply_rotary(
    x: Float[Tensor, "*batch n d_head"],
    cos: Float[Tensor, "n rotated"],
    sin: Float[Tensor, "n rotated"],
    interleaved: bool = False,
) -> Float[Tensor, "*batch n d_head"]:
    """x ⊙ cos + (x rotated by 90°) ⊙ sin on the first `rotated` coordinates (Su et al. 2021).

    interleaved: as in `Rotation`. Raises `ShapeError` for tables of an odd width, or wider than x.
    """
    n = cos.shape[-1]
    if n % 2 or n > x.shape[-1]:
        raise ShapeError(f"{n} of {x.shape[-1]} coordinates cannot be rotated in pairs.")
    turned = x[..., :n]
    if interleaved:
        quarter = torch.stack((-turned[..., 1::2], turned[..., ::2]), dim=-1).flatten(-2)
    else:
        quarter = torch.cat((-turned[..., n // 2 :], turned[..., : n // 2]), dim=-1)
    return torch.cat((turned * cos + quarter * sin, x[..., n:]), dim=-1)


@dataclass(frozen=True, eq=False)
class RelativeAttention(AttentionBlock):
    """What queries and keys of one such block are made of.

    Key head g serves the query heads g·n, …, (g + 1)·n − 1 of its group of n. ln: the norm that
    feeds them, None where there is none (OLMo-2). norm_Q, norm_K: norms of queries and keys. clip:
    bound of their coordinates. bias: by distance, in units of the scores before the division by
    `scale`. soft_cap: c in c·tanh(s/(c·scale)). sinks: a learned logit of each head, which stands
    beside those of the keys in the softmax and brings no value (gpt_oss). window: how many keys a
    causal query sees at most.
    Raises `ShapeError` where shapes, norm, scale or window do not fit.
    """

    ln: LayerNorm | RMSNorm | None
    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "key_head d_model d_head"]
    b_Q: Float[Tensor, "head d_head"]
    b_K: Float[Tensor, "key_head d_head"]
    scale: float
    norm_Q: HeadNorm | None = None
    norm_K: HeadNorm | None = None
    clip: float | None = None
    rotation: Rotation | None = None
    bias: DistanceBias | None = None
    soft_cap: float | None = None
    sinks: Float[Tensor, "head"] | None = None
    window: int | None = None
    causal: bool = True

    def __post_init__(self) -> None:
        if self.ln is not None:
            require(self.ln, (LayerNorm, RMSNorm), "RelativeAttention.ln")
        axes = {
            "W_Q": "head d_model d_head",
            "W_K": "key_head d_model d_head",
            "b_Q": "head d_head",
            "b_K": "key_head d_head",
        }
        if self.sinks is not None:
            axes["sinks"] = "head"
        sizes = check_tensors(self, axes)
        if sizes["head"] % sizes["key_head"]:
            raise ShapeError(
                f"{sizes['head']} query heads cannot share {sizes['key_head']} key heads evenly; "
                "the number of key heads must divide that of query heads."
            )
        self._check_settings()
        for name in ("clip", "soft_cap"):
            value = getattr(self, name)
            if value is not None:
                real_number(value, f"RelativeAttention.{name}", least=0, open_ends=True)


@dataclass(frozen=True, eq=False)
class TokenEmbeddings(Weights):
    """Token embeddings of a model without position embeddings, in the checkpoint's own dtype.

    W_E: [vocab d_model]; factor: what every embedding is multiplied by (√d_model in Gemma); ln: a
    LayerNorm of the embeddings themselves (BLOOM). Raises `ShapeError` for a LayerNorm of another
    width, or numbers that are not finite.
    """

    W_E: Float[Tensor, "vocab d_model"]
    factor: float = 1.0
    ln: LayerNorm | None = None

    def __post_init__(self) -> None:
        check_tensors(self, {"W_E": "vocab d_model"}, keep_narrow=True)
        real_number(self.factor, "TokenEmbeddings.factor")
        if self.ln is not None and self.ln.d_model != self.d_model:
            raise ShapeError(
                f"TokenEmbeddings.ln normalises {self.ln.d_model} coordinates but W_E has "
                f"{self.d_model}; take both from the same model."
            )

    @property
    def vocab_size(self) -> int:
        """How many tokens the vocabulary has."""
        return self.W_E.shape[0]

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return self.W_E.shape[1]

    def rows(self, token_ids: Int[Tensor, "n"] | slice) -> Float[Tensor, "n d_model"]:
        """What the first block reads for these tokens, in single precision or wider."""
        rows = self.W_E[token_ids]
        if rows.element_size() < 4:
            rows = rows.float()
        if self.factor != 1:
            rows = rows * self.factor
        if self.ln is None:
            return rows
        width = rows.shape[-1:]
        return torch.nn.functional.layer_norm(rows, width, self.ln.gamma, self.ln.beta, self.ln.eps)

    def checked(self, token_ids: Any) -> Int[Tensor, "n"]:
        """The ids as a tensor; `TokenError` unless they are whole numbers of the vocabulary."""
        return torch.from_numpy(whole_ids(token_ids, self.vocab_size))


@dataclass(frozen=True, eq=False)
class RelativeFirstLayer(Weights):
    """The first layer of a model whose positions stand between query and key.

    Fields as in `FirstLayer`; `layer` is always 0. context: the longest text that the model was
    made for, or None.
    """

    embeddings: TokenEmbeddings
    attention: RelativeAttention
    tokenizer: Any = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    context: int | None = None
    #: Only block 0 of such a model is read.
    layer = 0
    #: There are token embeddings in every such model.
    is_partial = False

    def __post_init__(self) -> None:
        require(self.embeddings, TokenEmbeddings, "RelativeFirstLayer.embeddings")
        require(self.attention, RelativeAttention, "RelativeFirstLayer.attention")
        check_width(self.embeddings.d_model, self.attention.d_model)

    @property
    def name(self) -> str:
        """The model's name, as its provenance gives it."""
        return str(self.provenance.get("name", "unnamed model"))


#: What is loaded by name: the first layer of a model of either kind.
AnyFirstLayer = FirstLayer | RelativeFirstLayer
