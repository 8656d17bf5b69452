"""A whole pre-LN transformer's weights: what the logit decomposition reads.

Same conventions as `weights`: row vectors, x @ W, frozen dataclasses checked when made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.weights import AttentionLayer, Embeddings, LayerNorm, Weights, check_tensors

#: Activations by the names that Hugging Face configurations use.
ACTIVATIONS = {
    "gelu_new": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu": torch.nn.functional.gelu,
    "relu": torch.nn.functional.relu,
}


@dataclass(frozen=True, eq=False)
class FeedForward(Weights):
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
        check_tensors(
            self, W_in="d_model d_mlp", b_in="d_mlp", W_out="d_mlp d_model", b_out="d_model"
        )
        if self.activation not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            raise ShapeError(f"FeedForward.activation must be one of {known}: {self.activation!r}.")

    @property
    def d_mlp(self) -> int:
        return self.W_in.shape[1]


@dataclass(frozen=True, eq=False)
class Block(Weights):
    """One transformer layer: attention, then an FFN, or none for an attention-only model."""

    attention: AttentionLayer
    mlp: FeedForward | None = None


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
        check_tensors(self, W_U="d_model vocab")
        widths = {self.embeddings.d_model, self.ln_f.d_model, self.d_model}
        widths |= {block.attention.d_model for block in self.blocks}

    def to(self, dtype: torch.dtype) -> Transformer:
        """The same weights in another floating-point dtype; a tied unembedding stays tied."""
        embeddings = self.embeddings.to(dtype)
        tied = self.W_U.data_ptr() == self.embeddings.tokens().data_ptr()
        return replace(
            self,
            embeddings=embeddings,
            blocks=tuple(block.to(dtype) for block in self.blocks),
            ln_f=self.ln_f.to(dtype),
            W_U=embeddings.tokens().T if tied else self.W_U.to(dtype),
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
