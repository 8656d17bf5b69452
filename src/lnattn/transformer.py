"""A whole pre-LN transformer's weights: what the logit decomposition reads.

Same conventions as `weights`: row vectors, x @ W, frozen dataclasses checked when made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ShapeError
from lnattn.inputs import one_of, require
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
    activation: the name of g, a key of `ACTIVATIONS`. Raises `ShapeError` where shapes or the
    norm's width do not fit, or for an activation that is not known.
    """

    ln: LayerNorm
    W_in: Float[Tensor, "d_model d_mlp"]
    b_in: Float[Tensor, "d_mlp"]
    W_out: Float[Tensor, "d_mlp d_model"]
    b_out: Float[Tensor, "d_model"]
    activation: str = "gelu_new"

    def __post_init__(self) -> None:
        require(self.ln, LayerNorm, "FeedForward.ln")
        sizes = check_tensors(
            self,
            {
                "W_in": "d_model d_mlp",
                "b_in": "d_mlp",
                "W_out": "d_mlp d_model",
                "b_out": "d_model",
            },
        )
        if self.ln.d_model != sizes["d_model"]:
            raise ShapeError(
                f"FeedForward.ln normalises {self.ln.d_model} coordinates but W_in reads "
                f"{sizes['d_model']}; take both from the same block."
            )
        one_of(self.activation, ACTIVATIONS, "FeedForward.activation")

    @property
    def d_mlp(self) -> int:
        """The width of the hidden layer."""
        return self.W_in.shape[1]


@dataclass(frozen=True, eq=False)
class Block(Weights):
    """One transformer layer: attention, then an FFN, or none for an attention-only model.

    Raises `ShapeError` where the two are of different widths.
    """

    attention: AttentionLayer
    mlp: FeedForward | None = None

    def __post_init__(self) -> None:
        require(self.attention, AttentionLayer, "Block.attention")
        if self.mlp is not None and self.mlp.ln.d_model != self.attention.d_model:
            raise ShapeError(
                f"Block.mlp has width {self.mlp.ln.d_model} but Block.attention has width "
                f"{self.attention.d_model}; take both from the same layer."
            )


@dataclass(frozen=True, eq=False)
class Transformer:
    """A pre-LN decoder: embeddings, blocks, final LayerNorm, unembedding.

    W_U: [d_model vocab]; a tied model passes W_Eᵀ. Raises `ShapeError` without blocks or token
    embeddings, or where the parts are of different widths or vocabularies.
    """

    embeddings: Embeddings
    blocks: tuple[Block, ...]
    ln_f: LayerNorm
    W_U: Float[Tensor, "d_model vocab"]

    def __post_init__(self) -> None:
        check_tensors(self, {"W_U": "d_model vocab"})
        if self.embeddings.W_E is None:
            raise ShapeError(
                "a whole Transformer needs token embeddings; this checkpoint has none."
            )
        if self.W_U.shape[1] != self.embeddings.vocab_size:
            raise ShapeError(
                f"Transformer.W_U is over {self.W_U.shape[1]} tokens but the embeddings are over "
                f"{self.embeddings.vocab_size}; take both from the same model."
            )
        widths = {self.embeddings.d_model, self.ln_f.d_model, self.d_model}
        widths |= {block.attention.d_model for block in self.blocks}
        if not self.blocks or len(widths) != 1:
            raise ShapeError(
                f"a Transformer needs one block or more, all of one width, not "
                f"{len(self.blocks)} blocks and widths {sorted(widths)}."
            )

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
        """The width of the residual stream."""
        return self.W_U.shape[0]

    @property
    def n_layers(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.blocks[0].attention.n_heads
