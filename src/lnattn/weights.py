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

W = TypeVar("W", bound="Weights")


def is_finite(tensor: Tensor) -> bool:
    """Whether no entry is NaN or infinite, in one pass without a temporary as large as the tensor.

    The extremes of a tensor are NaN where any entry is, and infinite where the largest are.
    """
    return tensor.numel() == 0 or all(
        map(math.isfinite, map(float, torch.aminmax(tensor.detach())))
    )


def check_tensors(owner: object, **axes: str) -> dict[str, int]:
    """The sizes of the axes of a container's tensors, by name; `ShapeError` where they do not fit.

    axes: for each field that holds a tensor the names of its axes, such as "head d_model d_head".
    Tensors are of floating point, finite and not empty, and an axis has one size in all of them.
    """
    sizes: dict[str, int] = {}
    for name, names in axes.items():
        label, tensor = f"{type(owner).__name__}.{name}", getattr(owner, name)
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"{label} must be a torch.Tensor, not {type(tensor).__name__}.")
        if not tensor.is_floating_point():
            raise ShapeError(f"{label} must hold floating-point numbers, not {tensor.dtype}.")
        got, named = list(tensor.shape), names.split()
        new = set(named) - sizes.keys()
        if new and (len(got) != len(named) or 0 in got):
            raise ShapeError(f"{label} must be a non-empty tensor with axes [{names}], not {got}.")
        sizes |= {axis: got[place] for place, axis in enumerate(named) if axis in new}
        shape = [sizes[axis] for axis in named]
        if got != shape:
            raise ShapeError(f"{label} must have shape [{names}] = {shape}, not {got}.")
        if not is_finite(tensor):
            raise ShapeError(f"{label} holds NaN or infinite values; the checkpoint is damaged.")
    return sizes


class Weights:
    """What all weight containers, dataclasses all, share: moving every tensor to one dtype."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to(self: W, dtype: torch.dtype) -> W:
        """The same weights in another floating-point dtype (float64 for identity checks)."""
        values = ((item.name, getattr(self, item.name)) for item in fields(self))
        return replace(
            self, **{k: v.to(dtype) for k, v in values if isinstance(v, Tensor | Weights)}
        )


def dtypes_of(weights: Weights | None) -> set[torch.dtype]:
    """The dtypes of all tensors of a container, those of its norms among them."""
    values = [getattr(weights, item.name) for item in fields(weights)] if weights else []
    found = {value.dtype for value in values if isinstance(value, Tensor)}
    return found.union(*(dtypes_of(value) for value in values if isinstance(value, Weights)))


class Norm(Weights):
    """What LayerNorm and RMSNorm share: a gain for every coordinate, and ε."""

    gamma: Tensor
    eps: float

    def __post_init__(self) -> None:
        check_tensors(self, gamma="d_model")
        if not (math.isfinite(self.eps) and self.eps >= 0):
            raise ShapeError(
                f"{type(self).__name__}.eps must be a finite number ≥ 0, not {self.eps}."
            )

    @property
    def d_model(self) -> int:
        return self.gamma.shape[0]


@dataclass(frozen=True, eq=False)
class LayerNorm(Norm):
    """Gain γ, bias β and ε of one LayerNorm (Kamoda et al. 2025, Eq. 2–3).

    gamma, beta: [d_model]; eps is added to the variance, inside the square root.
    """

    gamma: Float[Tensor, "d_model"]
    beta: Float[Tensor, "d_model"]
    eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensors(self, gamma="d_model", beta="d_model")


class Heads:
    """What has queries of several heads, raw or folded: their number and their sizes.

    W_Q: [head d_model d_head].
    """

    W_Q: Tensor

    @property
    def n_heads(self) -> int:
        return self.W_Q.shape[0]

    @property
    def d_model(self) -> int:
        return self.W_Q.shape[1]

    @property
    def d_head(self) -> int:
        return self.W_Q.shape[2]


class AttentionBlock(Weights, Heads):
    """What attention blocks share: their sizes, and what must hold of norm, scale and window."""

    ln: Norm | None
    scale: float
    window: int | None
    causal: bool

    def _check_settings(self) -> None:
        name = type(self).__name__
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ShapeError(f"{name}.scale must be a positive number, not {self.scale}.")
        if self.window is not None and (self.window < 1 or not self.causal):
            raise ShapeError(f"{name}.window is {self.window}; it must be ≥ 1 in a causal layer.")


@dataclass(frozen=True, eq=False)
class AttentionLayer(AttentionBlock):
    """One multi-head attention block together with the LayerNorm that feeds it.

    `causal`: a query sees keys j ≤ i only. `scale`: what the scores are divided by before the
    softmax, √d_head unless given (1 for GPT-Neo). `window`: how many keys a causal query sees at
    most, itself included, or None for all. Weights that a model does not have (a bias) are zeros.
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
        sizes = check_tensors(
            self,
            **dict.fromkeys(("W_Q", "W_K", "W_V"), "head d_model d_head"),
            W_O="head d_head d_model",
            **dict.fromkeys(("b_Q", "b_K", "b_V"), "head d_head"),
            b_O="d_model",
        )
        if math.isnan(self.scale):  # not given
            object.__setattr__(self, "scale", math.sqrt(sizes["d_head"]))
        self._check_settings()


@dataclass(frozen=True, eq=False)
class Embeddings(Weights):
    """Token and position embeddings: the two things that are added before the first layer.

    W_E: [vocab d_model] or None where a partial checkpoint has none; W_P: [position d_model].
    Row j of W_P belongs to position j of a text, whatever offset the checkpoint stores it with.
    """

    W_E: Float[Tensor, "vocab d_model"] | None
    W_P: Float[Tensor, "position d_model"]

    def __post_init__(self) -> None:
        tokens = {} if self.W_E is None else {"W_E": "vocab d_model"}
        check_tensors(self, W_P="position d_model", **tokens)

    def tokens(self) -> Float[Tensor, "vocab d_model"]:
        """W_E; `TokenError` for a checkpoint that has none."""
        if self.W_E is None:
            raise TokenError(
                "this checkpoint has no token embeddings, so only position terms can be computed."
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
class FirstLayer(Weights):
    """The first layer of a model which adds position embeddings to its input.

    tokenizer: a Hugging Face tokenizer or None; provenance: where the weights are from; layer: the
    index of the attention block. The six terms are defined for layer 0 only.
    """

    embeddings: Embeddings
    attention: AttentionLayer
    tokenizer: Any = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    layer: int = 0

    @property
    def name(self) -> str:
        return str(self.provenance.get("name", "unnamed model"))

    @property
    def is_partial(self) -> bool:
        """True where token embeddings are missing: only position terms can be computed."""
        return self.embeddings.W_E is None


def require_absolute(given: Any) -> Any:
    """The model, block or embeddings given; `ShapeError` unless they have absolute positions."""
    if not isinstance(given, FirstLayer | AttentionLayer | Embeddings):
        raise ShapeError(
            f"a {type(given).__name__} has rotary or relative positions, or none, so the six terms "
            "and what is made of them do not exist; use lnattn.fold_relative and "
            "lnattn.distance_terms."
        )
    return given
