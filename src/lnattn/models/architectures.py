"""How each family of checkpoints names and lays out the weights that the formulas need.

A family turns a configuration and a source of named tensors into `Embeddings` and
`AttentionLayer`s with one layout: W_Q, W_K, W_V [head d_model d_head], W_O [head d_head d_model],
used as x @ W. What a family does not have (a bias, a gain) becomes zeros or ones, so that the
algebra that follows needs no special cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from lnattn.errors import CheckpointError
from lnattn.models.layers import AttentionLayer, Embeddings, LayerNorm


@runtime_checkable
class WeightSource(Protocol):
    """Named tensors that are read one at a time, from a file, a cache or the hub."""

    label: str

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str) -> Tensor:
        """The tensor as stored; `CheckpointError` where it cannot be read."""
        ...


class Family:
    """What all families share; a subclass says where its weights are.

    config: the checkpoint's config.json; weights: its tensors. Raises `CheckpointError` where the
    configuration describes a variant whose attention the folding does not fit.
    """

    #: What the names of a checkpoint may begin with, longest first: with or without a head.
    prefixes: ClassVar[tuple[str, ...]] = ("",)
    #: A tensor that every checkpoint of the family has; it tells which prefix is in use.
    anchor: ClassVar[str]
    causal: bool = True

    def __init__(self, config: Mapping[str, Any], weights: WeightSource) -> None:
        self.config, self.weights = config, weights
        self.check_variant()
        self.d_model, self.n_heads, self.n_layers = self.dimensions()
        if self.d_model % self.n_heads:
            raise CheckpointError(
                f"{weights.label}: its configuration asks for {self.n_heads} heads of a width of "
                f"{self.d_model}, which does not divide evenly; mend config.json."
            )
        self.d_head = self.d_model // self.n_heads
        self.prefix = next((p for p in self.prefixes if p + self.anchor in weights), None)
        if self.prefix is None:
            raise CheckpointError(
                f"{weights.label} holds no tensor {self.anchor!r}, so it is no "
                f"{config.get('model_type')} checkpoint as its config.json says; "
                "give a folder whose weights and configuration belong together."
            )

    # ---- what a subclass provides ----------------------------------------------------------
    def check_variant(self) -> None:
        """Raise `CheckpointError` for a variant of the family that is not supported."""

    def dimensions(self) -> tuple[int, int, int]:
        """(d_model, heads, layers) from the configuration."""
        raise NotImplementedError

    def embeddings(self) -> Embeddings:
        """The two summands of the first layer's input."""
        raise NotImplementedError

    def attention(self, layer: int) -> AttentionLayer:
        """One attention block with the LayerNorm that feeds it."""
        raise NotImplementedError

    def notes(self, layer: int) -> dict[str, Any]:
        """What a reader of this layer must know beyond its weights; goes into provenance."""
        return {}

    # ---- help for subclasses ---------------------------------------------------------------
    def setting(self, *names: str) -> int:
        """A positive whole number from the configuration, under the first name that is there."""
        for name in names:
            if name in self.config:
                value = self.config[name]
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
                raise CheckpointError(
                    f"{self.weights.label}: {name} in config.json must be a whole number > 0, "
                    f"not {value!r}."
                )
        raise CheckpointError(
            f"{self.weights.label}: config.json does not give {names[0]}; "
            "take the configuration that belongs to the weights."
        )

    def read(self, name: str, *shape: int) -> Tensor:
        """One tensor by its name without prefix, checked and in float32 at least."""
        full = self.prefix + name
        if full not in self.weights:
            raise CheckpointError(
                f"{self.weights.label} lacks the tensor {full!r}; the checkpoint is incomplete, "
                "fetch it again."
            )
        tensor = self.weights.read(full)
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise CheckpointError(
                f"{self.weights.label}: {full!r} is stored as {tensor.dtype}, so the checkpoint is "
                "quantised and the folding would not be exact; use the unquantised weights."
            )
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{self.weights.label}: {full!r} has shape {list(tensor.shape)} where config.json "
                f"asks for {list(shape)}; weights and configuration do not belong together."
            )
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(
                f"{self.weights.label}: {full!r} holds NaN or infinite values; "
                "the checkpoint is damaged, fetch it again."
            )
        return tensor.float() if tensor.element_size() < 4 else tensor

    def has(self, name: str) -> bool:
        return self.prefix + name in self.weights

    def layer_norm(self, name: str, eps: float) -> LayerNorm:
        """γ and β under `name`.weight and `name`.bias."""
        return LayerNorm(
            self.read(f"{name}.weight", self.d_model), self.read(f"{name}.bias", self.d_model), eps
        )

    def split_in(self, weight: Tensor) -> Tensor:
        """[d_model, d_model] used as x @ W → [head d_model d_head]: a head owns columns."""
        return weight.reshape(self.d_model, self.n_heads, self.d_head).transpose(0, 1).contiguous()

    def split_out(self, weight: Tensor) -> Tensor:
        """[d_model, d_model] used as z @ W → [head d_head d_model]: a head owns rows."""
        return weight.reshape(self.n_heads, self.d_head, self.d_model).contiguous()

    def split_bias(self, bias: Tensor) -> Tensor:
        """[d_model] → [head d_head]."""
        return bias.reshape(self.n_heads, self.d_head).contiguous()


class GPT2(Family):
    """GPT-2 small to XL, DistilGPT2, book-gpt2: pre-LN, causal, Conv1D weights stored [in, out]."""

    prefixes = ("transformer.", "")
    anchor = "wpe.weight"

    def check_variant(self) -> None:
        if self.config.get("add_cross_attention"):
            raise CheckpointError(
                f"{self.weights.label}: a GPT-2 with cross-attention also attends to an encoder, "
                "which the folding of one block does not describe; use a plain decoder."
            )

    def dimensions(self) -> tuple[int, int, int]:
        return (
            self.setting("n_embd", "hidden_size"),
            self.setting("n_head", "num_attention_heads"),
            self.setting("n_layer", "num_hidden_layers"),
        )

    def embeddings(self) -> Embeddings:
        positions = self.setting("n_positions", "n_ctx", "max_position_embeddings")
        vocab = self.setting("vocab_size")
        # A partial checkpoint has no token embeddings; position terms need none.
        tokens = self.read("wte.weight", vocab, self.d_model) if self.has("wte.weight") else None
        return Embeddings(tokens, self.read("wpe.weight", positions, self.d_model))

    def attention(self, layer: int) -> AttentionLayer:
        d, at = self.d_model, f"h.{layer}."
        weight = self.read(f"{at}attn.c_attn.weight", d, 3 * d)
        bias = self.read(f"{at}attn.c_attn.bias", 3 * d)
        W_Q, W_K, W_V = map(self.split_in, weight.split(d, dim=1))
        b_Q, b_K, b_V = map(self.split_bias, bias.split(d))
        scale = math.sqrt(self.d_head) if self.config.get("scale_attn_weights", True) else 1.0
        if self.config.get("scale_attn_by_inverse_layer_idx", False):
            scale *= layer + 1
        return AttentionLayer(
            ln=self.layer_norm(f"{at}ln_1", self.config.get("layer_norm_epsilon", 1e-5)),
            W_Q=W_Q,
            W_K=W_K,
            W_V=W_V,
            W_O=self.split_out(self.read(f"{at}attn.c_proj.weight", d, d)),
            b_Q=b_Q,
            b_K=b_K,
            b_V=b_V,
            b_O=self.read(f"{at}attn.c_proj.bias", d),
            causal=True,
            scale=scale,
        )


FAMILIES: dict[str, type[Family]] = {"gpt2": GPT2}


def family_of(config: Mapping[str, Any], weights: WeightSource) -> Family:
    """The family that a configuration names, or a `CheckpointError` that says why there is none."""
    kind = config.get("model_type")
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise CheckpointError(
            f"{weights.label} is of type {kind!r}, which lnattn does not read; it reads {known}."
        )
    return FAMILIES[kind](config, weights)
