"""The weights of a first layer whose positions stand between query and key.

Rotary positions, ALiBi and T5's buckets are not added to the input. At the first layer a query
therefore depends on its token alone, and so does a key; what positions do is to turn one against
the other (`Rotation`), or to add a number that depends on their distance. Same conventions as the
containers of `lnattn.weights`: row vectors, x @ W, frozen and checked when made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.errors import ShapeError, TokenError
from lnattn.weights import (
    AttentionBlock,
    FirstLayer,
    FirstLayerOf,
    InputEmbeddings,
    LayerNorm,
    Norm,
    Weights,
    check_tensors,
)

#: A bias by distance: distances i − j (whole numbers, any shape) -> [head *shape].
DistanceBias = Callable[[Tensor], Tensor]
#: Rotation tables: positions [n] and a dtype -> cos and sin, both [n turned].
Tables = Callable[[Tensor, torch.dtype], tuple[Tensor, Tensor]]

_NO_POSITIONS = (
    "this model adds no position embeddings to its input (its positions are rotary or relative), "
    "so the six terms and what is made of them do not exist; use lnattn.distance_terms."
)


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

    gamma, beta: [head d_head]; centred: whether the mean is subtracted; joint: whether all heads
    of a token are normalised as one vector (OLMo-2), and not each by itself (Qwen3, Gemma 3).
    """

    gamma: Float[Tensor, "head d_head"]
    beta: Float[Tensor, "head d_head"]
    eps: float
    centred: bool = False
    joint: bool = False

    def __post_init__(self) -> None:
        check_tensors(self, gamma="head d_head", beta="head d_head")

    def __call__(self, x: Float[Tensor, "head n d_head"]) -> Float[Tensor, "head n d_head"]:
        axes = (0, 2) if self.joint else (2,)
        if self.centred:
            x = x - x.mean(dim=axes, keepdim=True)
        divisor = (x.square().mean(dim=axes, keepdim=True) + self.eps).sqrt()
        return x / divisor * self.gamma[:, None] + self.beta[:, None]


@dataclass(frozen=True)
class Rotation:
    """How far each pair of coordinates of a query or key is turned at a position.

    tables: from transformers' own code; cos and sin hold one column for each turned coordinate,
    so that their width says how many there are (the first of a head; the rest is left alone).
    They depend on the whole list of positions where a model stretches its angles for long texts.
    interleaved: coordinates 2 m and 2 m + 1 turn together (GPT-J), not m and m + turned/2.
    """

    tables: Tables
    interleaved: bool = False


@dataclass(frozen=True, eq=False)
class RelativeAttention(AttentionBlock):
    """What queries and keys of one such block are made of.

    W_Q: [head d_model d_head], b_Q: [head d_head]; W_K: [key_head d_model d_head], b_K:
    [key_head d_head]: key head g serves the query heads g·n, …, (g + 1)·n − 1 of its group of n.
    ln: the norm that feeds them, None where there is none (OLMo-2). norm_Q, norm_K: norms of
    queries and keys. clip: bound of their coordinates. bias: by distance, in units of the scores
    before the division by `scale`. soft_cap: c in c·tanh(s/(c·scale)), applied before the softmax.
    window: how many keys a causal query sees at most.
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
    window: int | None = None
    causal: bool = True

    def __post_init__(self) -> None:
        sizes = check_tensors(
            self,
            W_Q="head d_model d_head",
            W_K="key_head d_model d_head",
            b_Q="head d_head",
            b_K="key_head d_head",
        )
        heads, key_heads = sizes["head"], sizes["key_head"]
        if heads % key_heads:
            raise ShapeError(f"{heads} query heads cannot share {key_heads} key heads evenly.")
        self._check_settings()
        for name in ("clip", "soft_cap"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ShapeError(f"RelativeAttention.{name} must be positive, not {value}.")


@dataclass(frozen=True, eq=False)
class TokenEmbeddings(InputEmbeddings):
    """Token embeddings of a model without position embeddings.

    W_E: [vocab d_model], in the dtype of the checkpoint, which may be half precision; `rows`
    widens only what is asked for. factor: what every embedding is multiplied by (√d_model in
    Gemma). ln: a LayerNorm of the embeddings themselves (BLOOM).
    """

    W_E: Float[Tensor, "vocab d_model"]
    factor: float = 1.0
    ln: LayerNorm | None = None

    def __post_init__(self) -> None:
        check_tensors(self, W_E="vocab d_model")

    @property
    def d_model(self) -> int:
        return self.W_E.shape[1]

    @property
    def W_P(self) -> Tensor:
        """There are none, so every analysis of position embeddings ends here."""
        raise ShapeError(_NO_POSITIONS)

    @property
    def n_positions(self) -> int:
        return len(self.W_P)

    def tokens(self) -> Tensor:
        """What the six-term analyses ask for; they end here with the sentence of `W_P`."""
        return self.W_P

    def rows(self, token_ids: Int[Tensor, "n"] | slice) -> Float[Tensor, "n d_model"]:
        """What the first block reads for these tokens, in single precision or wider."""
        some = self.W_E[token_ids]
        some = some.float() if some.element_size() < 4 else some
        some = some if self.factor == 1 else some * self.factor
        if self.ln is None:
            return some
        return torch.nn.functional.layer_norm(
            some, some.shape[-1:], self.ln.gamma, self.ln.beta, self.ln.eps
        )

    def checked(self, token_ids: Int[Tensor, "n"] | list[int]) -> Int[Tensor, "n"]:
        """The ids as a tensor; `TokenError` for an empty list or an id outside the vocabulary."""
        ids = torch.as_tensor(token_ids, dtype=torch.long)
        if ids.ndim != 1 or len(ids) == 0:
            raise TokenError(f"token ids must be a non-empty list, not shape {list(ids.shape)}.")
        wrong = ids[(ids < 0) | (ids >= self.vocab_size)]
        if len(wrong):
            raise TokenError(
                f"token id {int(wrong[0])} is outside the vocabulary of this model, which has "
                f"{self.vocab_size}; use 0 to {self.vocab_size - 1}."
            )
        return ids


@dataclass(frozen=True, eq=False)
class RelativeFirstLayer(FirstLayerOf[TokenEmbeddings, RelativeAttention]):
    """The first layer of a model whose positions stand between query and key.

    Fields as in `FirstLayerOf`; `layer` is always 0, since a later block's queries do not depend
    on a token alone. context: the longest text that the model was made for, or None.
    """

    context: int | None = None


#: What is loaded by name: the first layer of a model of either kind.
AnyFirstLayer = FirstLayer | RelativeFirstLayer


def with_positions(model: AnyFirstLayer) -> FirstLayer:
    """The model, where it adds position embeddings to its input; `ShapeError` where it does not."""
    if isinstance(model, RelativeFirstLayer):
        raise ShapeError(_NO_POSITIONS)
    return model
