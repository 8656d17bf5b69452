"""A whole pre-LN transformer's weights: what the logit decomposition reads.

The attention chapters need an `AttentionLayer` only; tracing a prediction to its parts also needs
the feed-forward networks, the final LayerNorm and the unembedding. Same conventions as `layers`:
row vectors, x @ W, frozen dataclasses checked when made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import CheckpointError, ShapeError
from lnattn.models.layers import (
    AttentionLayer,
    Embeddings,
    LayerNorm,
    _check,
    _check_dims,
    _Weights,
)

#: Activations by the names that Hugging Face configurations use.
ACTIVATIONS = {
    "gelu_new": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu": torch.nn.functional.gelu,
    "relu": torch.nn.functional.relu,
}


@dataclass(frozen=True, eq=False)
class FeedForward(_Weights):
    """One FFN with the LayerNorm that feeds it: g(x W_in + b_in) W_out + b_out.

    W_in: [d_model d_mlp]; b_in: [d_mlp]; W_out: [d_mlp d_model]; b_out: [d_model].
    activation: the name of g, a key of `ACTIVATIONS`.
    """

    ln: LayerNorm
    W_in: Float[Tensor, "d_model d_mlp"]
    b_in: Float[Tensor, "d_mlp"]
    W_out: Float[Tensor, "d_mlp d_model"]
    b_out: Float[Tensor, "d_model"]
    activation: str = "gelu_new"

    def __post_init__(self) -> None:
        d_model, d_mlp = _check_dims(self, "W_in", self.W_in, "d_model d_mlp")
        _check(self, "W_in", self.W_in, (d_model, d_mlp), "d_model d_mlp")
        _check(self, "b_in", self.b_in, (d_mlp,), "d_mlp")
        _check(self, "W_out", self.W_out, (d_mlp, d_model), "d_mlp d_model")
        _check(self, "b_out", self.b_out, (d_model,), "d_model")
        if self.ln.d_model != d_model:
            raise ShapeError(
                f"FeedForward.ln normalises {self.ln.d_model} coordinates but W_in reads {d_model}."
            )
        if self.activation not in ACTIVATIONS:
            raise ShapeError(
                f"FeedForward.activation must be one of {sorted(ACTIVATIONS)}, "
                f"not {self.activation!r}."
            )

    @property
    def d_mlp(self) -> int:
        return self.W_in.shape[1]


@dataclass(frozen=True, eq=False)
class Block(_Weights):
    """One transformer layer: attention, then an FFN, or none for an attention-only model."""

    attention: AttentionLayer
    mlp: FeedForward | None = None

    def __post_init__(self) -> None:
        if self.mlp is not None and self.mlp.ln.d_model != self.attention.d_model:
            raise ShapeError(
                f"Block.mlp has width {self.mlp.ln.d_model} but its attention has width "
                f"{self.attention.d_model}."
            )


@dataclass(frozen=True, eq=False)
class Transformer:
    """A pre-LN decoder: embeddings, blocks, final LayerNorm, unembedding.

    W_U: [d_model vocab]; a tied model passes W_Eᵀ.
    """

    embeddings: Embeddings
    blocks: tuple[Block, ...]
    ln_f: LayerNorm
    W_U: Float[Tensor, "d_model vocab"]

    def __post_init__(self) -> None:
        d_model, vocab = _check_dims(self, "W_U", self.W_U, "d_model vocab")
        _check(self, "W_U", self.W_U, (d_model, vocab), "d_model vocab")
        if self.embeddings.W_E is None:
            raise ShapeError(
                "a whole Transformer needs token embeddings; this checkpoint has none."
            )
        widths = {self.embeddings.d_model, self.ln_f.d_model, d_model}
        widths |= {block.attention.d_model for block in self.blocks}
        if not self.blocks or len(widths) != 1:
            raise ShapeError(
                f"a Transformer needs one block or more, all of one width, "
                f"not {len(self.blocks)} blocks and widths {sorted(widths)}."
            )

    def to(self, dtype: torch.dtype) -> Transformer:
        """The same weights in another floating-point dtype."""
        return replace(
            self,
            embeddings=self.embeddings.to(dtype),
            blocks=tuple(block.to(dtype) for block in self.blocks),
            ln_f=self.ln_f.to(dtype),
            W_U=self.W_U.to(dtype),
        )

    @property
    def d_model(self) -> int:
        return self.W_U.shape[0]

    @property
    def n_layers(self) -> int:
        return len(self.blocks)

    @property
    def n_heads(self) -> int:
        return self.blocks[0].attention.n_heads


def gpt2_transformer(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> Transformer:
    """A `Transformer` from the tensors and the configuration of a GPT-2 in Hugging Face's layout.

    weights: a state dict, names with or without the leading 'transformer.'; config: a mapping as
    in config.json (`model.config.to_dict()`). Tensors keep their dtype and share memory.

    Raises `CheckpointError` where a tensor or a setting is missing or not supported.
    """
    reader = _GPT2(weights, config)
    return Transformer(
        Embeddings(reader.tensor("wte.weight"), reader.tensor("wpe.weight")),
        tuple(reader.block(layer) for layer in range(int(reader.setting("n_layer")))),
        reader.layer_norm("ln_f"),
        (weights.get("lm_head.weight", reader.tensor("wte.weight"))).T,
    )


class _GPT2:
    """Names and layouts of Hugging Face's GPT-2."""

    def __init__(self, weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        self.weights, self.config = weights, config
        self.heads = int(self.setting("n_head"))
        if self.setting("activation_function") not in ACTIVATIONS:
            raise CheckpointError(
                f"the activation {self.setting('activation_function')!r} is not supported; "
                f"these are: {', '.join(sorted(ACTIVATIONS))}."
            )

    def setting(self, name: str) -> Any:
        if name not in self.config:
            raise CheckpointError(f"the configuration has no {name!r}; is this a GPT-2?")
        return self.config[name]

    def tensor(self, name: str) -> Tensor:
        for full in (name, f"transformer.{name}"):
            if full in self.weights:
                return self.weights[full].detach()
        raise CheckpointError(f"the checkpoint has no tensor {name!r}; is this a whole GPT-2?")

    def layer_norm(self, name: str) -> LayerNorm:
        return LayerNorm(
            self.tensor(f"{name}.weight"),
            self.tensor(f"{name}.bias"),
            float(self.setting("layer_norm_epsilon")),
        )

    def block(self, layer: int) -> Block:
        name = f"h.{layer}"
        d_model = self.tensor("wte.weight").shape[1]
        d_head = d_model // self.heads
        # c_attn holds Q, K and V side by side; inside each, the heads side by side.
        W_Q, W_K, W_V = (
            part.reshape(d_model, self.heads, d_head).transpose(0, 1)
            for part in self.tensor(f"{name}.attn.c_attn.weight").split(d_model, dim=1)
        )
        b_Q, b_K, b_V = self.tensor(f"{name}.attn.c_attn.bias").reshape(3, self.heads, d_head)
        scale = d_head**0.5 if self.config.get("scale_attn_weights", True) else 1.0
        if self.config.get("scale_attn_by_inverse_layer_idx", False):
            scale *= layer + 1
        return Block(
            AttentionLayer(
                self.layer_norm(f"{name}.ln_1"),
                W_Q,
                W_K,
                W_V,
                self.tensor(f"{name}.attn.c_proj.weight").reshape(self.heads, d_head, d_model),
                b_Q,
                b_K,
                b_V,
                self.tensor(f"{name}.attn.c_proj.bias"),
                scale=scale,
            ),
            FeedForward(
                self.layer_norm(f"{name}.ln_2"),
                self.tensor(f"{name}.mlp.c_fc.weight"),
                self.tensor(f"{name}.mlp.c_fc.bias"),
                self.tensor(f"{name}.mlp.c_proj.weight"),
                self.tensor(f"{name}.mlp.c_proj.bias"),
                self.setting("activation_function"),
            ),
        )
