"""The weights that the formulas need, as frozen dataclasses checked when they are made.

Row vectors throughout: a linear map is `x @ W`, x in R^{1×d}. Axis names:
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
from lnattn.inputs import plain_tensor, real_number, require, whole_number

W = TypeVar("W", bound="Weights")

#: The scale of a block that is not told one; then it is √d_head.
_NOT_GIVEN = math.nan


def is_finite(tensor: Tensor) -> bool:
    """Whether no entry is NaN or infinite, in one pass without a temporary as large as the tensor.

    The extremes of a tensor are NaN where any entry is, and infinite where the largest are.
    """
    return tensor.numel() == 0 or all(
        map(math.isfinite, map(float, torch.aminmax(tensor.detach())))
    )


def check_tensors(
    owner: object, axes: Mapping[str, str], *, keep_narrow: bool = False
) -> dict[str, int]:
    """Make a container's tensors plain, and return the sizes of their axes by name.

    axes: for each field that holds a tensor the names of its axes, such as "head d_model d_head".
    What a user's tensor becomes is said in `lnattn.inputs`; keep_narrow leaves half precision as it
    is. Raises `ShapeError` where a tensor is empty or not finite, or an axis has two sizes.
    """
    sizes: dict[str, int] = {}
    for name, names in axes.items():
        label = f"{type(owner).__name__}.{name}"
        tensor = plain_tensor(getattr(owner, name), label, keep_narrow=keep_narrow)
        _check_axes(label, tensor, names.split(), sizes)
        if not is_finite(tensor):
            raise ShapeError(f"{label} holds NaN or infinite values; the checkpoint is damaged.")
        object.__setattr__(owner, name, tensor)
    return sizes


def _check_axes(label: str, tensor: Tensor, names: list[str], sizes: dict[str, int]) -> None:
    """Compare a tensor's shape with the sizes known by name, and add those that are new."""
    shape = list(tensor.shape)
    if len(shape) != len(names) or 0 in shape:
        expected = " ".join(names)
        raise ShapeError(f"{label} must be a non-empty tensor with axes [{expected}], not {shape}.")
    for name, size in zip(names, shape, strict=True):
        sizes.setdefault(name, size)
    wanted = [sizes[name] for name in names]
    if shape != wanted:
        raise ShapeError(f"{label} must have shape [{' '.join(names)}] = {wanted}, not {shape}.")


def check_width(embeddings: int, attention: int) -> None:
    """Raise `ShapeError` unless embeddings are as wide as what the attention block reads."""
    if embeddings != attention:
        raise ShapeError(
            f"the embeddings have width {embeddings} but the attention block reads {attention}; "
            "take both from the same model."
        )


class Weights:
    """What all weight containers, dataclasses all, share: moving every tensor to one dtype."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to(self: W, dtype: torch.dtype) -> W:
        """The same weights in another floating-point dtype (float64 for identity checks)."""
        moved = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor | Weights):
                moved[item.name] = value.to(dtype)
        return replace(self, **moved)


def dtypes_of(weights: Weights | None) -> set[torch.dtype]:
    """The dtypes of all tensors of a container, those of its norms among them."""
    if weights is None:
        return set()
    values = [getattr(weights, item.name) for item in fields(weights)]
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    return dtypes.union(*(dtypes_of(value) for value in values if isinstance(value, Weights)))


class Norm(Weights):
    """What LayerNorm and RMSNorm share: a gain for every coordinate, and ε."""

    gamma: Tensor
    eps: float

    def __post_init__(self) -> None:
        check_tensors(self, {"gamma": "d_model"})
        real_number(self.eps, f"{type(self).__name__}.eps", least=0)

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return self.gamma.shape[0]


@dataclass(frozen=True, eq=False)
class LayerNorm(Norm):
    """Gain γ, bias β and ε of one LayerNorm (Kamoda et al. 2025, Eq. 2–3).

    gamma, beta: [d_model]; eps is added to the variance, inside the square root. Raises
    `ShapeError` for a gain and a bias of two widths, numbers that are not finite, or ε < 0.

    >>> ln = LayerNorm(torch.ones(4), torch.zeros(4), eps=1e-5)
    >>> ln.d_model
    4
    """

    gamma: Float[Tensor, "d_model"]
    beta: Float[Tensor, "d_model"]
    eps: float = 1e-5

    def __post_init__(self) -> None:
        check_tensors(self, {"gamma": "d_model", "beta": "d_model"})
        real_number(self.eps, "LayerNorm.eps", least=0)


class Heads:
    """What has queries of several heads, raw or folded: their number and their sizes.

    W_Q: [head d_model d_head].
    """

    W_Q: Tensor

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.W_Q.shape[0]

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return self.W_Q.shape[1]

    @property
    def d_head(self) -> int:
        """The width of a head."""
        return self.W_Q.shape[2]


class AttentionBlock(Weights, Heads):
    """What attention blocks share: their sizes, and what must hold of norm, scale and window."""

    ln: Norm | None
    scale: float
    window: int | None
    causal: bool

    def _check_settings(self) -> None:
        name = type(self).__name__
        if self.ln is not None and self.ln.d_model != self.d_model:
            raise ShapeError(
                f"{name}.ln normalises {self.ln.d_model} coordinates but W_Q reads {self.d_model}; "
                "take both from the same block."
            )
        real_number(self.scale, f"{name}.scale, a positive number,", least=0, open_ends=True)
        if self.window is not None:
            whole_number(self.window, f"{name}.window")
            if not self.causal:
                raise ShapeError(
                    f"{name}.window is {self.window}, but only a causal layer has one."
                )


@dataclass(frozen=True, eq=False)
class AttentionLayer(AttentionBlock):
    """One multi-head attention block together with the LayerNorm that feeds it.

    ln: that LayerNorm. W_Q, W_K, W_V: [head d_model d_head]; W_O: [head d_head d_model]; b_Q, b_K,
    b_V: [head d_head]; b_O: [d_model]; all of one floating-point dtype.
    `causal`: a query sees keys j ≤ i only. `scale`: what the scores are divided by before the
    softmax, √d_head unless given (1 for GPT-Neo). `window`: how many keys a causal query sees at
    most, itself included, or None for all. `index`: which block of its model it is, from 0; only
    block 0 reads the embeddings. Weights that a model does not have (a bias) are zeros. Raises
    `ShapeError` where the shapes, the norm's width, the scale, the window or the index do not fit.

    >>> import lnattn
    >>> layer = lnattn.load_first_layer("book-gpt2").attention
    >>> layer.n_heads, layer.d_model, layer.d_head, layer.causal
    (8, 256, 32, True)
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
    scale: float = _NOT_GIVEN
    window: int | None = None
    index: int = 0

    def __post_init__(self) -> None:
        require(self.ln, LayerNorm, "AttentionLayer.ln")
        whole_number(self.index, "AttentionLayer.index", 0)
        sizes = check_tensors(
            self,
            {
                "W_Q": "head d_model d_head",
                "W_K": "head d_model d_head",
                "W_V": "head d_model d_head",
                "W_O": "head d_head d_model",
                "b_Q": "head d_head",
                "b_K": "head d_head",
                "b_V": "head d_head",
                "b_O": "d_model",
            },
        )
        if self.scale is _NOT_GIVEN:
            object.__setattr__(self, "scale", math.sqrt(sizes["d_head"]))
        self._check_settings()


@dataclass(frozen=True, eq=False)
class Embeddings(Weights):
    """Token and position embeddings: the two things that are added before the first layer.

    W_E: [vocab d_model] or None where a partial checkpoint has none; W_P: [position d_model].
    Row j of W_P belongs to position j of a text, whatever offset the checkpoint stores it with.
    Raises `ShapeError` where the two have different widths.

    >>> import lnattn
    >>> embeddings = lnattn.load_first_layer("book-gpt2").embeddings
    >>> embeddings.vocab_size, embeddings.n_positions, embeddings.d_model
    (8192, 256, 256)
    """

    W_E: Float[Tensor, "vocab d_model"] | None
    W_P: Float[Tensor, "position d_model"]

    def __post_init__(self) -> None:
        axes = {"W_P": "position d_model"}
        if self.W_E is not None:
            axes["W_E"] = "vocab d_model"
        check_tensors(self, axes)

    def tokens(self) -> Float[Tensor, "vocab d_model"]:
        """W_E; `TokenError` for a checkpoint that has none."""
        if self.W_E is None:
            raise TokenError(
                "this checkpoint has no token embeddings, so only position terms can be computed."
            )
        return self.W_E

    @property
    def vocab_size(self) -> int:
        """How many tokens the vocabulary has."""
        return 0 if self.W_E is None else self.W_E.shape[0]

    @property
    def n_positions(self) -> int:
        """How many positions the context has."""
        return self.W_P.shape[0]

    @property
    def d_model(self) -> int:
        """The width of the residual stream."""
        return self.W_P.shape[1]


@dataclass(frozen=True, eq=False)
class FirstLayer(Weights):
    """The first layer of a model which adds position embeddings to its input.

    embeddings and attention: its weights; tokenizer: a Hugging Face tokenizer or None; provenance:
    where the weights are from. Raises `ShapeError` for embeddings that are not as wide as what the
    block reads.

    >>> import lnattn
    >>> first = lnattn.load_first_layer("book-gpt2")
    >>> first.name, first.layer, first.is_partial
    ('book-gpt2', 0, False)
    """

    embeddings: Embeddings
    attention: AttentionLayer
    tokenizer: Any = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.embeddings, Embeddings, "FirstLayer.embeddings")
        require(self.attention, AttentionLayer, "FirstLayer.attention")
        check_width(self.embeddings.d_model, self.attention.d_model)

    @property
    def name(self) -> str:
        """The model's name, as its provenance gives it."""
        return str(self.provenance.get("name", "unnamed model"))

    @property
    def layer(self) -> int:
        """Which block of the model it is; the six terms are defined for block 0 only."""
        return self.attention.index

    @property
    def is_partial(self) -> bool:
        """True where token embeddings are missing: only position terms can be computed."""
        return self.embeddings.W_E is None


def require_absolute(given: Any) -> Any:
    """The model, block or embeddings given; `ShapeError` unless they have absolute positions."""
    return require(given, (FirstLayer, AttentionLayer, Embeddings), "the model or its part")
