"""What all families of checkpoints share: reading, checking and reshaping named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from lnattn.errors import CheckpointError
from lnattn.weights import AttentionLayer, LayerNorm, is_finite


@runtime_checkable
class WeightSource(Protocol):
    """Named tensors that are read one at a time, from a file, a cache or the hub."""

    label: str

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str) -> Tensor:
        """The tensor as stored; `CheckpointError` where it cannot be read."""
        ...


class Family:
    """A configuration and a source of weights, read as one family of models names them.

    Raises `CheckpointError` where the configuration is of a variant that the folding does not fit.
    """

    #: As in `find_prefix`.
    prefixes: ClassVar[tuple[str, ...]] = ("",)
    anchor: ClassVar[str]
    #: Where the configuration says (d_model, heads, layers); alternatives in order.
    sizes: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hidden_size",),
        ("num_attention_heads",),
        ("num_hidden_layers",),
    )

    prefix: str
    d_model: int
    n_heads: int
    n_layers: int

    def __init__(self, config: Mapping[str, Any], weights: WeightSource) -> None:
        self.config, self.weights = config, weights
        self.check_variant()
        self.find_sizes()

    def find_prefix(self, prefixes: tuple[str, ...], anchor: str) -> str:
        """What the names of this checkpoint begin with: some are saved with a head, some without.

        anchor: a tensor that every checkpoint of the family has.
        """
        for prefix in prefixes:
            if prefix + anchor in self.weights:
                return prefix
        raise CheckpointError(
            f"{self.weights.label} holds no tensor {anchor!r}, so it is no "
            f"{self.config.get('model_type')} checkpoint as its config.json says; "
            "give a folder whose weights and configuration belong together."
        )

    def find_sizes(self) -> None:
        """Set the prefix and the sizes."""
        self.prefix = self.find_prefix(self.prefixes, self.anchor)
        self.d_model, self.n_heads, self.n_layers = (self.setting(*names) for names in self.sizes)
        if self.d_model % self.n_heads:
            raise CheckpointError(
                f"{self.weights.label}: config.json asks for {self.n_heads} heads of a width of "
                f"{self.d_model}, which does not divide evenly; mend it."
            )
        self.d_head = self.d_model // self.n_heads

    # ---- what a subclass provides ----------------------------------------------------------
    def check_variant(self) -> None:
        """Raise `CheckpointError` for a variant of the family that is not supported."""

    def embeddings(self) -> Any:
        """What the first layer reads: `Embeddings`, or `TokenEmbeddings`."""
        raise NotImplementedError

    def attention(self, layer: int) -> Any:
        """An `AttentionLayer` or `RelativeAttention`, with the norm that feeds it."""
        raise NotImplementedError

    def notes(self) -> dict[str, Any]:
        """What provenance says of a family beyond its weights."""
        return {}

    # ---- help for subclasses ---------------------------------------------------------------
    def refuse(self, why: str) -> None:
        """Raise the error for a variant that is not supported."""
        raise CheckpointError(f"{self.weights.label} cannot be used: {why}")

    def setting(self, *names: str) -> int:
        """A positive whole number from the configuration, under the first name that is there."""
        label, name = self.weights.label, next((n for n in names if n in self.config), None)
        if name is None:
            raise CheckpointError(
                f"{label}: config.json does not give {names[0]}; take the one of these weights."
            )
        value = self.config[name]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise CheckpointError(
            f"{label}: {name} in config.json must be a whole number > 0, not {value!r}."
        )

    def number(self, name: str, default: float) -> float:
        """A finite number ≥ 0 from the configuration, such as the ε of a norm."""
        value = self.config.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            return float(value)
        raise CheckpointError(
            f"{self.weights.label}: {name} in config.json must be a number ≥ 0, not {value!r}."
        )

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a tensor of this name, the prefix left out."""
        return self.prefix + name in self.weights

    def read(self, name: str, *shape: int, widen: bool = True) -> Tensor:
        """One tensor by its name without prefix, checked; in float32 or wider, or as stored."""
        full, wrong = self.prefix + name, ""
        if full not in self.weights:
            raise CheckpointError(
                f"{self.weights.label} lacks the tensor {full!r}; it is incomplete, fetch it again."
            )
        tensor = self.weights.read(full)
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            wrong = f"is stored as {tensor.dtype}, quantised; use the unquantised weights"
        elif tuple(tensor.shape) != shape:
            wrong = (
                f"has shape {list(tensor.shape)} where config.json asks for {list(shape)}; weights "
                "and configuration do not belong together"
            )
        elif not is_finite(tensor):
            wrong = "holds NaN or infinite values; the checkpoint is damaged, fetch it again"
        if wrong:
            raise CheckpointError(f"{self.weights.label}: {full!r} {wrong}.")
        return tensor.float() if widen and tensor.element_size() < 4 else tensor

    def layer_norm(self, name: str, eps: float) -> LayerNorm:
        """γ and β of a LayerNorm, also under the names that checkpoints from TensorFlow use."""
        gain, shift = ("gamma", "beta") if self.has(f"{name}.gamma") else ("weight", "bias")
        return LayerNorm(
            self.read(f"{name}.{gain}", self.d_model),
            self.read(f"{name}.{shift}", self.d_model),
            float(eps),
        )

    def linear(self, name: str, *, bias: bool = True) -> tuple[Tensor, Tensor]:
        """A torch.nn.Linear of width d_model, turned so that it is used as x @ W, and its bias.

        Where the family has no bias it is zeros.
        """
        d = self.d_model
        weight = self.read(f"{name}.weight", d, d).T
        return weight, self.read(f"{name}.bias", d) if bias else weight.new_zeros(d)

    def assemble(
        self, ln: LayerNorm, *projections: tuple[Tensor, Tensor], **settings: Any
    ) -> AttentionLayer:
        """An `AttentionLayer` from the (weight, bias) of queries, keys, values and output.

        All of width d_model, used as x @ W; settings: its other fields. Of the output a head owns
        rows, of the others columns.
        """
        *inward, (W_O, b_O) = projections
        d, heads, d_head = self.d_model, self.n_heads, self.d_head
        Q, K, V = (W.reshape(d, heads, d_head).transpose(0, 1).contiguous() for W, _ in inward)
        b_Q, b_K, b_V = (b.reshape(heads, d_head).contiguous() for _, b in inward)
        out = W_O.reshape(heads, d_head, d).contiguous()
        return AttentionLayer(ln, Q, K, V, out, b_Q, b_K, b_V, b_O, **settings)
