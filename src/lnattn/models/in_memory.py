"""Taking over a layer of torch from memory."""

from __future__ import annotations

import torch

from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, LayerNorm


def block_of_encoder_layer(layer: torch.nn.TransformerEncoderLayer) -> Block:
    """The weights of torch's own post-LN encoder layer, as a `Block` for `post_ln_layer`.

    Its two LayerNorms become those of the attention and of the FFN; the activation must be gelu.
    """
    attention, (first, second) = layer.self_attn, (layer.linear1, layer.linear2)
    d_model, heads = attention.embed_dim, attention.num_heads
    weights = attention.in_proj_weight.detach().chunk(3)
    W_Q, W_K, W_V = (part.T.reshape(d_model, heads, -1).transpose(0, 1) for part in weights)
    b_Q, b_K, b_V = attention.in_proj_bias.detach().reshape(3, heads, -1)
    W_O = attention.out_proj.weight.detach().T.reshape(heads, -1, d_model)
    both = layer.norm1, layer.norm2
    norms = [LayerNorm(n.weight.detach(), n.bias.detach(), n.eps) for n in both]
    W_in, b_in, W_out, b_out = (
        part.detach() for part in (first.weight.T, first.bias, second.weight.T, second.bias)
    )
    b_O = attention.out_proj.bias.detach()
    return Block(
        AttentionLayer(norms[0], W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O, causal=False),
        FeedForward(norms[1], W_in, b_in, W_out, b_out, "gelu"),
    )
