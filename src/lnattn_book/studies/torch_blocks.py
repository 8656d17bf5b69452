"""Taking over a layer of torch from memory."""

from __future__ import annotations

import torch

from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, LayerNorm


def block_of_encoder_layer(layer: torch.nn.TransformerEncoderLayer) -> Block:
    """The weights of torch's own post-LN encoder layer, as a `Block` for `post_ln_layer`.

    Its two LayerNorms become those of the attention and of the FFN; the activation must be gelu.
    """
    attention = layer.self_attn
    d_model = attention.embed_dim
    heads = attention.num_heads
    weights = attention.in_proj_weight.detach().chunk(3)
    W_Q, W_K, W_V = (part.T.reshape(d_model, heads, -1).transpose(0, 1) for part in weights)
    b_Q, b_K, b_V = attention.in_proj_bias.detach().reshape(3, heads, -1)
    W_O = attention.out_proj.weight.detach().T.reshape(heads, -1, d_model)
    return Block(
        attention=AttentionLayer(
            ln=_layer_norm(layer.norm1),
            W_Q=W_Q,
            W_K=W_K,
            W_V=W_V,
            W_O=W_O,
            b_Q=b_Q,
            b_K=b_K,
            b_V=b_V,
            b_O=attention.out_proj.bias.detach(),
            causal=False,
        ),
        mlp=FeedForward(
            ln=_layer_norm(layer.norm2),
            W_in=layer.linear1.weight.detach().T,
            b_in=layer.linear1.bias.detach(),
            W_out=layer.linear2.weight.detach().T,
            b_out=layer.linear2.bias.detach(),
            activation="gelu",
        ),
    )


def _layer_norm(norm: torch.nn.LayerNorm) -> LayerNorm:
    return LayerNorm(gamma=norm.weight.detach(), beta=norm.bias.detach(), eps=norm.eps)
