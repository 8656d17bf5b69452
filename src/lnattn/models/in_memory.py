"""Taking a model over from memory: of TransformerLens, processed or not, or a layer of torch."""

from __future__ import annotations

import math
from typing import Any

import torch

from lnattn.errors import CheckpointError
from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, Embeddings, FirstLayer, LayerNorm

_WEIGHTS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")


def from_transformer_lens(model: Any, layer: int = 0) -> FirstLayer:
    """A `FirstLayer` with the weights of a TransformerLens model.

    model: a `TransformerBridge` (TransformerLens 4) or a `HookedTransformer` (before), loaded with
    or without its weight processing. Where TransformerLens has already folded γ and β into the
    weights they count as 1 and 0, and folding again changes nothing. The weights are shared, not
    copied. TransformerLens itself is not imported.

    Raises `CheckpointError` for a normalisation or a kind of position that does not fit.
    """
    cfg = model.cfg
    _check(cfg)
    if not 0 <= layer < len(model.blocks):
        raise CheckpointError(f"{cfg.model_name} has {len(model.blocks)} layers, no layer {layer}.")
    block = model.blocks[layer]
    absent = [name for name in _WEIGHTS if getattr(block.attn, name, None) is None]
    if absent:
        # TransformerLens's configuration of such a model (GPT-Neo) also leaves out that its
        # scores are not scaled and that half of its layers are local.
        raise CheckpointError(
            f"{cfg.model_name} has no {', '.join(absent)} in TransformerLens; load it with "
            "load_first_layer instead."
        )
    weights = {name: getattr(block.attn, name).detach().cpu() for name in _WEIGHTS}
    if cfg.normalization_type == "LNPre":  # folded: the module has no gain and bias any more
        gamma = weights["W_Q"].new_ones(cfg.d_model)
        beta = weights["W_Q"].new_zeros(cfg.d_model)
    else:
        gamma, beta = block.ln1.w.detach().cpu(), block.ln1.b.detach().cpu()
    local = bool(cfg.use_local_attn) and cfg.attn_types[layer] == "local"
    return FirstLayer(
        Embeddings(model.W_E.detach().cpu(), model.W_pos.detach().cpu()),
        AttentionLayer(
            ln=LayerNorm(gamma, beta, float(cfg.eps)),
            **weights,
            causal=True,
            scale=_scale(cfg, layer),
            window=int(cfg.window_size) if local else None,
        ),
        tokenizer=model.tokenizer,
        provenance={
            "name": str(cfg.model_name).rpartition("/")[2],
            "source": "TransformerLens",
            "revision": None,
        },
        layer=layer,
    )


def block_of_encoder_layer(layer: torch.nn.TransformerEncoderLayer) -> Block:
    """The weights of torch's own post-LN encoder layer, as a `Block` for `post_ln_layer`.

    Its two LayerNorms become those of the attention and of the FFN; the activation must be gelu.
    """
    attention = layer.self_attn
    d_model, heads = attention.embed_dim, attention.num_heads
    W_Q, W_K, W_V = (
        part.T.reshape(d_model, heads, -1).transpose(0, 1)
        for part in attention.in_proj_weight.detach().chunk(3)
    )
    b_Q, b_K, b_V = attention.in_proj_bias.detach().reshape(3, heads, -1)
    W_O = attention.out_proj.weight.detach().T.reshape(heads, -1, d_model)

    def norm(module: torch.nn.LayerNorm) -> LayerNorm:
        return LayerNorm(module.weight.detach(), module.bias.detach(), module.eps)

    return Block(
        AttentionLayer(
            norm(layer.norm1),
            W_Q,
            W_K,
            W_V,
            W_O,
            b_Q,
            b_K,
            b_V,
            attention.out_proj.bias.detach(),
            causal=False,
        ),
        FeedForward(
            norm(layer.norm2),
            layer.linear1.weight.detach().T,
            layer.linear1.bias.detach(),
            layer.linear2.weight.detach().T,
            layer.linear2.bias.detach(),
            "gelu",
        ),
    )


def _check(cfg: Any) -> None:
    """Refuse what the folding does not fit."""
    if cfg.normalization_type not in ("LN", "LNPre"):
        raise CheckpointError(
            f"{cfg.model_name} normalises with {cfg.normalization_type!r}; only LayerNorm "
            "('LN' or 'LNPre') centres its input, which the folding needs."
        )
    if cfg.positional_embedding_type != "standard":
        raise CheckpointError(
            f"{cfg.model_name} has {cfg.positional_embedding_type!r} positions, which are not "
            "added to the input; only 'standard' ones give the six terms."
        )
    if cfg.attention_dir != "causal":
        raise CheckpointError(
            f"{cfg.model_name} is bidirectional and post-LN, so its ln1 comes after the attention; "
            "load it with load_first_layer instead."
        )


def _scale(cfg: Any, layer: int) -> float:
    """What the scores are divided by; TransformerLens writes −1 for 'the square root of d_head'."""
    scale = 1.0
    if cfg.use_attn_scale:
        scale = float(cfg.attn_scale) if cfg.attn_scale > 0 else math.sqrt(cfg.d_head)
    return scale * (layer + 1) if cfg.scale_attn_by_inverse_layer_idx else scale
