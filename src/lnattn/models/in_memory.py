"""Taking a model over from memory: of TransformerLens, processed or not, or a layer of torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lnattn.errors import CheckpointError
from lnattn.models import position_tables
from lnattn.rotary.weights import (
    AnyFirstLayer,
    RelativeAttention,
    RelativeFirstLayer,
    RMSNorm,
    Rotation,
    TokenEmbeddings,
)
from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, Embeddings, FirstLayer, LayerNorm

_QUERIES_AND_KEYS = ("W_Q", "W_K", "b_Q", "b_K")


def from_transformer_lens(model: Any, layer: int = 0) -> AnyFirstLayer:
    """The weights of a TransformerLens model, as a `FirstLayer` or a `RelativeFirstLayer`.

    model: a `TransformerBridge` (TransformerLens 4) or a `HookedTransformer` (before), loaded with
    or without its weight processing: γ and β that it has folded count as 1 and 0. Of a model with
    rotary positions layer 0 is taken, with the rotation and the shared keys that TransformerLens
    has. Weights are shared, not copied. Raises `CheckpointError` for what does not fit.
    """
    cfg = model.cfg
    if not 0 <= layer < len(model.blocks):
        raise CheckpointError(f"{cfg.model_name} has {len(model.blocks)} layers, no layer {layer}.")
    block = model.blocks[layer]
    kind, positions = cfg.normalization_type, cfg.positional_embedding_type
    rotary = positions == "rotary"
    names = _QUERIES_AND_KEYS if rotary else (*_QUERIES_AND_KEYS, "W_V", "W_O", "b_V", "b_O")
    given = {name: getattr(block.attn, name, None) for name in names}
    unfit = {
        f"its norm is {kind!r}": kind not in ("LN", "LNPre") + ("RMS", "RMSPre") * rotary,
        f"its positions are {positions!r}": positions not in ("standard", "rotary"),
        "it normalises its queries and keys": getattr(cfg, "use_qk_norm", False),
        "it is bidirectional and post-LN": cfg.attention_dir != "causal",
        "of rotary positions only its layer 0 is read": rotary and layer,
        # Its configuration then also hides that GPT-Neo's scores are not scaled.
        f"it has no {', '.join(n for n in names if given[n] is None)}": None in given.values(),
    }
    if wrong := [why for why, holds in unfit.items() if holds]:
        raise CheckpointError(f"{cfg.model_name}: {wrong[0]}; try load_first_layer instead.")
    weights = {name: one.detach().cpu() for name, one in given.items() if one is not None}
    scale = float(cfg.attn_scale) if cfg.attn_scale > 0 else math.sqrt(cfg.d_head)
    local = bool(cfg.use_local_attn) and cfg.attn_types[layer] == "local"
    settings: dict[str, Any] = {
        "scale": (scale if cfg.use_attn_scale else 1.0)
        * (layer + 1 if cfg.scale_attn_by_inverse_layer_idx else 1),
        "window": int(cfg.window_size) if local else None,
        "ln": _norm(cfg, block, weights["W_Q"]),
    }
    name = str(cfg.model_name).rpartition("/")[2]
    origin = {"name": name, "source": "TransformerLens", "revision": None}
    about = {"tokenizer": model.tokenizer, "provenance": origin, "layer": layer}
    W_E = model.W_E.detach().cpu()
    if not rotary:
        embeddings = Embeddings(W_E, model.W_pos.detach().cpu())
        return FirstLayer(embeddings, AttentionLayer(**weights, **settings), **about)
    for key in ("W_K", "b_K"):  # one for each key head; without the underscore they are repeated
        shared = getattr(block.attn, f"_{key}", None)
        weights[key] = weights[key] if shared is None else shared.detach().cpu()
    cap = getattr(cfg, "attn_scores_soft_cap", -1.0)
    attention = RelativeAttention(
        **weights,
        **settings,
        rotation=_rotation(model, block.attn),
        soft_cap=float(cap) if cap > 0 else None,
    )
    return RelativeFirstLayer(TokenEmbeddings(W_E), attention, **about, context=int(cfg.n_ctx))


def _norm(cfg: Any, block: Any, like: Tensor) -> LayerNorm | RMSNorm:
    """The norm before the attention; γ = 1 and β = 0 where TransformerLens has folded them."""
    folded = cfg.normalization_type.endswith("Pre")
    gamma = like.new_ones(cfg.d_model) if folded else block.ln1.w.detach().cpu()
    if cfg.normalization_type.startswith("RMS"):
        return RMSNorm(gamma, float(cfg.eps))
    beta = torch.zeros_like(gamma) if folded else block.ln1.b.detach().cpu()
    return LayerNorm(gamma, beta, float(cfg.eps))


def _rotation(model: Any, attention: Any) -> Rotation:
    """Its tables as TransformerLens keeps them; a bridge has none, so transformers' code is asked.

    Only of two families: others scale embeddings or gains where a bridge does not show it.
    """
    if hasattr(attention, "rotary_cos"):
        cos, sin = attention.rotary_cos.detach().cpu(), attention.rotary_sin.detach().cpu()
        return Rotation(position_tables.rows_of(cos, sin), bool(model.cfg.rotary_adjacent_pairs))
    whole = model.original_model
    if whole.config.model_type not in ("llama", "gpt_neox"):
        raise CheckpointError(
            f"{model.cfg.model_name}: of bridges with rotary positions only llama and gpt_neox are "
            "taken; use load_first_layer."
        )
    turning = next(m for name, m in whole.named_modules() if name.endswith("rotary_emb"))
    return position_tables.rotary(type(turning.original_component), whole.config)


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
