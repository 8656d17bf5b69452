"""Deep stacks of layers at their initialisation: gradients by layer, and how much a layer changes.

The notes say of LayerNorm before each stage (pre-LN) that gradients neither vanish nor explode, and
that representations may collapse; of LayerNorm after it (post-LN) the reverse (Xiong et al. 2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.forward import post_ln_layer, pre_ln_layer
from lnattn.attention.layernorm import standardise
from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, LayerNorm

#: What is done with a block, by the place of its LayerNorms.
ORDERS = {
    "pre-LN": lambda x, block: pre_ln_layer(x, block)[0],
    "post-LN": post_ln_layer,
}


class Depth(NamedTuple):
    """What happens along a stack.

    gradient: norm of the loss's gradient with respect to each layer's W_out; likeness: mean over
    tokens of the cosine between a layer's input and output.
    """

    gradient: Float[Tensor, "layer"]
    likeness: Float[Tensor, "layer"]


def xavier_block(d_model: int, heads: int, d_mlp: int, generator: torch.Generator) -> Block:
    """A causal layer with Xavier-normal maps and no biases yet, stored as GPT-2's are."""

    def drawn(*shape: int) -> Tensor:
        std = (2 / (shape[-2] + shape[-1])) ** 0.5
        return std * torch.randn(*shape, generator=generator, dtype=torch.float64)

    def norm() -> LayerNorm:
        return LayerNorm(torch.ones(d_model).double(), torch.zeros(d_model).double())

    d_head = d_model // heads

    def none(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.float64)

    def of_heads(whole: Tensor) -> Tensor:
        """A head's map is a part of one d × d matrix, and as large as that makes it."""
        return whole.reshape(d_model, heads, d_head).transpose(0, 1)

    attention = AttentionLayer(
        ln=norm(),
        W_Q=of_heads(drawn(d_model, d_model)),
        W_K=of_heads(drawn(d_model, d_model)),
        W_V=of_heads(drawn(d_model, d_model)),
        W_O=drawn(d_model, d_model).reshape(heads, d_head, d_model),
        b_Q=none(heads, d_head),
        b_K=none(heads, d_head),
        b_V=none(heads, d_head),
        b_O=none(d_model),
    )
    mlp = FeedForward(
        ln=norm(),
        W_in=drawn(d_model, d_mlp),
        b_in=none(d_mlp),
        W_out=drawn(d_mlp, d_model),
        b_out=none(d_model),
        activation="relu",
    )
    return Block(attention, mlp)


def through_depth(
    order: str, depth: int, *, d_model: int = 64, heads: int = 4, tokens: int = 32, seed: int = 0
) -> Depth:
    """Send random tokens through a new stack of layers and differentiate a random readout; float64.

    order: a key of `ORDERS`. The last output is normalised in either order, and read by a random
    direction for each token. Weights depend on seed and sizes alone.
    """
    generator = torch.Generator().manual_seed(seed)
    x, readout = torch.randn(2, tokens, d_model, generator=generator, dtype=torch.float64)
    weights = []
    likeness = []
    for _ in range(depth):
        block = xavier_block(d_model, heads, 4 * d_model, generator)
        assert block.mlp is not None  # these blocks have both parts
        weights.append(block.mlp.W_out.requires_grad_())
        y = ORDERS[order](x, block)
        likeness.append(torch.nn.functional.cosine_similarity(x, y, dim=-1).mean().detach())
        x = y
    loss = (standardise(x) * readout).sum() / tokens
    gradients = torch.autograd.grad(loss, weights)
    return Depth(torch.stack([g.norm() for g in gradients]), torch.stack(likeness))


def turned_by_steps(
    order: str, depth: int, generator: np.random.Generator, *, d_model: int = 64, tokens: int = 32
) -> float:
    """Mean cosine of the last layer's input and output, where stages add random steps of one size.

    A layer has two stages, as in `through_depth`. Steps have the size of the normalised stream.
    With post-LN the sum is normalised after each stage.
    """
    stream = torch.from_numpy(generator.normal(size=(tokens, d_model)))
    before = stream
    for _ in range(depth):
        before = stream
        for step in torch.from_numpy(generator.normal(size=(2, tokens, d_model))):
            stream = stream + step
            stream = standardise(stream) if order == "post-LN" else stream
    return float(torch.nn.functional.cosine_similarity(before, stream, dim=-1).mean())
