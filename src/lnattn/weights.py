"""The weights that the formulas need, as frozen dataclasses checked when they are made.

Row vectors throughout: a linear map is `x @ W`, x in R^{1×d}. Axis names are those of the book:
`head`, `d_model`, `d_head`, `vocab`, `position`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError, TokenError

W = TypeVar("W", bound="_Weights")


def is_finite(tensor: Tensor) -> bool:
    """Whether no entry is NaN or infinite, in one pass without a temporary as large as the tensor.

    The extremes of a tensor are NaN where any entry is, and infinite where the largest are.
    """
    return tensor.numel() == 0 or all(
        map(math.isfinite, map(float, torch.aminmax(tensor.detach())))
    )


def _check(owner: object, name: str, tensor: Tensor, shape: tuple[int, ...], axes: str) -> None:
    """Raise `ShapeError` unless `tensor` is a finite floating-point tensor of `shape`."""
    label = f"{type(owner).__name__}.{name}"
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{label} must be a torch.Tensor, not {type(tensor).__name__}.")
    if not tensor.is_floating_point():
        raise ShapeError(f"{label} must hold floating-point numbers, not {tensor.dtype}.")
    if tuple(tensor.shape) != shape:
        raise ShapeError(
            f"{label} must have shape [{axes}] = {list(shape)}, not {list(tensor.shape)}."
        )
    if not is_finite(tensor):
        raise ShapeError(f"{label} holds NaN or infinite values; the checkpoint is damaged.")


def _check_dims(owner: object, name: str, tensor: Tensor, axes: str) -> tuple[int, ...]:
    """Raise `ShapeError` unless `tensor` has as many axes as `axes` names and none is empty."""
    label = f"{type(owner).__name__}.{name}"
    if not isinstance(tensor, Tensor) or tensor.ndim != len(axes.split()) or 0 in tensor.shape:
        got = list(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ShapeError(f"{label} must be a non-empty tensor with axes [{axes}], not {got}.")
    return tuple(tensor.shape)


class _Weights:
    """What all weight containers, dataclasses all, share: moving every tensor to one dtype."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to(self: W, dtype: torch.dtype) -> W:
        """The same weights in another floating-point dtype (float64 for identity checks)."""
        changed = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor | _Weights):
                changed[item.name] = value.to(dtype)
        return replace(self, **changed)


class _Norm(_Weights):
    """What LayerNorm and RMSNorm share: a gain for every coordinate, and ε."""

    gamma: Tensor
    eps: float

    def _check_norm(self) -> None:
        shape = _check_dims(self, "gamma", self.gamma, "d_model")
        _check(self, "gamma", self.gamma, shape, "d_model")
        if not (math.isfinite(self.eps) and self.eps >= 0):
            raise ShapeError(
                f"{type(self).__name__}.eps must be a finite number ≥ 0, not {self.eps}."
            )

    @property
    def d_model(self) -> int:
        return self.gamma.shape[0]


@dataclass(frozen=True, eq=False)
class LayerNorm(_Norm):
    """Gain γ, bias β and ε of one LayerNorm (Kamoda et al. 2025, Eq. 2–3).

    gamma, beta: [d_model]; eps is added to the variance, inside the square root.
    """

    gamma: Float[Tensor, "d_model"]
    beta: Float[Tensor, "d_model"]
    eps: float = 1e-5

    def __post_init__(self) -> None:
        self._check_norm()
        _check(self, "beta", self.beta, (self.d_model,), "d_model")


class _Block(_Weights):
    """What attention blocks share: their sizes, and what must hold of norm, scale and window."""

    ln: Any
    W_Q: Tensor
    scale: float
    window: int | None
    causal: bool

    def _check_settings(self) -> None:
        name = type(self).__name__
        if self.ln is not None and self.ln.d_model != self.d_model:
            raise ShapeError(
                f"{name}.ln normalises {self.ln.d_model} coordinates but W_Q reads "
                f"{self.d_model}; take both from the same layer."
            )
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ShapeError(f"{name}.scale must be a positive number, not {self.scale}.")
        if self.window is not None and (self.window < 1 or not self.causal):
            raise ShapeError(
                f"{name}.window is {self.window}; it must be at least 1, and only a causal layer "
                "can have one."
            )

    @property
    def n_heads(self) -> int:
        return self.W_Q.shape[0]

    @property
    def d_model(self) -> int:
        return self.W_Q.shape[1]

    @property
    def d_head(self) -> int:
        return self.W_Q.shape[2]


@dataclass(frozen=True, eq=False)
class AttentionLayer(_Block):
    """One multi-head attention block together with the LayerNorm that feeds it.

    W_Q, W_K, W_V: [head d_model d_head], used as x @ W; W_O: [head d_head d_model];
    b_Q, b_K, b_V: [head d_head]; b_O: [d_model]. `causal`: a query sees keys j ≤ i only.
    `scale`: what the scores are divided by before the softmax, √d_head unless given (1 for
    GPT-Neo). `window`: how many keys a causal query sees at most, itself included (local layers of
    GPT-Neo), or None for all. Weights that a model does not have (a bias) are zeros.
    """

    ln: LayerNorm
    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "head d_model d_head"]
    W_V: Float[Tensor, "head d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]
    b_Q: Float[Tensor, "head d_head"]
    b_K: Float[Tensor, "head d_head"]
    b_V: Float[Tensor, "head d_head"]
    b_O: Float[Tensor, "d_model"]
    causal: bool = True
    scale: float = math.nan
    window: int | None = None

    def __post_init__(self) -> None:
        heads, d_model, d_head = _check_dims(self, "W_Q", self.W_Q, "head d_model d_head")
        for name in ("W_Q", "W_K", "W_V"):
            _check(self, name, getattr(self, name), (heads, d_model, d_head), "head d_model d_head")
        _check(self, "W_O", self.W_O, (heads, d_head, d_model), "head d_head d_model")
        for name in ("b_Q", "b_K", "b_V"):
            _check(self, name, getattr(self, name), (heads, d_head), "head d_head")
        _check(self, "b_O", self.b_O, (d_model,), "d_model")
        if math.isnan(self.scale):  # not given
            object.__setattr__(self, "scale", math.sqrt(d_head))
        self._check_settings()


@dataclass(frozen=True, eq=False)
class Embeddings(_Weights):
    """Token and position embeddings: the two things that are added before the first layer.

    W_E: [vocab d_model] or None where a partial checkpoint has none; W_P: [position d_model].
    Row j of W_P belongs to position j of a text, whatever offset the checkpoint stores it with.
    """

    W_E: Float[Tensor, "vocab d_model"] | None
    W_P: Float[Tensor, "position d_model"]

    def __post_init__(self) -> None:
        positions, d_model = _check_dims(self, "W_P", self.W_P, "position d_model")
        _check(self, "W_P", self.W_P, (positions, d_model), "position d_model")
        if self.W_E is not None:
            vocab, _ = _check_dims(self, "W_E", self.W_E, "vocab d_model")
            _check(self, "W_E", self.W_E, (vocab, d_model), "vocab d_model")

    def tokens(self) -> Float[Tensor, "vocab d_model"]:
        """W_E; `TokenError` for a checkpoint that has none."""
        if self.W_E is None:
            raise TokenError(
                "this checkpoint has no token embeddings, so only position terms can be computed; "
                "load a complete model for what involves tokens."
            )
        return self.W_E

    @property
    def vocab_size(self) -> int:
        return 0 if self.W_E is None else self.W_E.shape[0]

    @property
    def n_positions(self) -> int:
        return self.W_P.shape[0]

    @property
    def d_model(self) -> int:
        return self.W_P.shape[1]


@dataclass(frozen=True, eq=False)
class FirstLayer(_Weights):
    """All that the weight-based analysis of a model's attention needs.

    `tokenizer` is a Hugging Face tokenizer or None; `provenance` says where the weights are from
    (name, revision, file, sha256); `layer` is the index of the attention block. The six terms are
    defined for layer 0 only, since later layers do not read embeddings.
    """

    embeddings: Embeddings
    attention: AttentionLayer
    tokenizer: Any = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    layer: int = 0

    def __post_init__(self) -> None:
        if self.embeddings.d_model != self.attention.d_model:
            raise ShapeError(
                f"the embeddings have width {self.embeddings.d_model} but the attention block "
                f"reads {self.attention.d_model}; take both from the same model."
            )

    @property
    def name(self) -> str:
        return str(self.provenance.get("name", "unnamed model"))

    @property
    def is_partial(self) -> bool:
        """True where token embeddings are missing: only position terms can be computed."""
        return self.embeddings.W_E is None
