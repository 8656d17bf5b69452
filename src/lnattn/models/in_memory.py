"""Taking a model over from memory: of TransformerLens, processed or not, or a layer of torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lnattn.errors import CheckpointError, TokenError
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
#: Families whose bridge in TransformerLens 4 computes from the weights that it shows.
_BRIDGED = ("llama", "gpt_neox")
_WEIGHTS = (*_QUERIES_AND_KEYS, "W_V", "W_O", "b_V", "b_O")


def from_transformer_lens(model: Any, layer: int = 0) -> AnyFirstLayer:
    """The weights of a TransformerLens model, as a `FirstLayer` or a `RelativeFirstLayer`.

    model: a `TransformerBridge` (TransformerLens 4) or a `HookedTransformer` (before), loaded with
    or without its weight processing. Where TransformerLens has already folded γ and β into the
    weights they count as 1 and 0, and folding again changes nothing. Of a model with rotary
    positions layer 0 is taken, with the sines and cosines that TransformerLens turns by; keys that
    heads share stay shared where it keeps them so. The weights are shared, not copied.
    TransformerLens itself is not imported.

    Raises `CheckpointError` for a normalisation or a kind of position that does not fit.

        model = TransformerBridge.boot_transformers("EleutherAI/pythia-160m")
        first = from_transformer_lens(model)
        folded = lnattn.fold_relative(first.attention)
        terms = lnattn.distance_terms(folded, first.embeddings, [510, 1711])
    """
    cfg = model.cfg
    rotary = cfg.positional_embedding_type == "rotary"
    _check(cfg, rotary)
    if not 0 <= layer < len(model.blocks):
        raise CheckpointError(f"{cfg.model_name} has {len(model.blocks)} layers, no layer {layer}.")
    if rotary and layer:
        raise CheckpointError(
            f"{cfg.model_name} has rotary positions: only its layer 0 is read, not layer {layer}."
        )
    block = model.blocks[layer]
    names = _QUERIES_AND_KEYS if rotary else _WEIGHTS
    absent = [name for name in names if getattr(block.attn, name, None) is None]
    if absent:
        # TransformerLens's configuration of such a model (GPT-Neo) also leaves out that its
        # scores are not scaled and that half of its layers are local.
        raise CheckpointError(
            f"{cfg.model_name} has no {', '.join(absent)} in TransformerLens; load it with "
            "load_first_layer instead."
        )
    weights = {name: getattr(block.attn, name).detach().cpu() for name in names}
    local = bool(cfg.use_local_attn) and cfg.attn_types[layer] == "local"
    settings: dict[str, Any] = {
        "causal": True,
        "scale": _scale(cfg, layer),
        "window": int(cfg.window_size) if local else None,
        "ln": _norm(cfg, block),
    }
    about = {
        "tokenizer": model.tokenizer,
        "provenance": {
            "name": str(cfg.model_name).rpartition("/")[2],
            "source": "TransformerLens",
            "revision": None,
        },
        "layer": layer,
    }
    W_E = model.W_E.detach().cpu()
    if not rotary:
        embeddings = Embeddings(W_E, model.W_pos.detach().cpu())
        return FirstLayer(embeddings, AttentionLayer(**weights, **settings), **about)
    for name in ("W_K", "b_K"):  # one for each key head; without the underscore they are repeated
        shared = getattr(block.attn, f"_{name}", None)
        weights[name] = weights[name] if shared is None else shared.detach().cpu()
    cap = getattr(cfg, "attn_scores_soft_cap", -1.0)
    attention = RelativeAttention(
        **weights,
        **settings,
        rotation=_rotation(model, block.attn),
        soft_cap=float(cap) if cap > 0 else None,
    )
    return RelativeFirstLayer(TokenEmbeddings(W_E), attention, **about, context=int(cfg.n_ctx))


def _norm(cfg: Any, block: Any) -> LayerNorm | RMSNorm:
    """The norm before the attention; γ = 1 and β = 0 where TransformerLens has folded them."""
    kind = cfg.normalization_type
    centred, folded = kind.startswith("LN"), kind.endswith("Pre")
    if folded:  # the module has no gain and bias any more
        gamma = block.attn.W_Q.detach().cpu().new_ones(cfg.d_model)
    else:
        gamma = block.ln1.w.detach().cpu()
    if not centred:
        return RMSNorm(gamma, float(cfg.eps))
    beta = torch.zeros_like(gamma) if folded else block.ln1.b.detach().cpu()
    return LayerNorm(gamma, beta, float(cfg.eps))


def _rotation(model: Any, attention: Any) -> Rotation:
    """The tables that TransformerLens keeps, for every position of its context, as it keeps them.

    A bridge keeps none and lets the model of transformers inside it turn; so its code is asked.
    """
    cfg = model.cfg
    if not hasattr(attention, "rotary_cos"):
        return _bridged_rotation(model)
    cos, sin = (getattr(attention, f"rotary_{name}").detach().cpu() for name in ("cos", "sin"))

    def tables(positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        if int(positions.max()) >= len(cos):
            raise TokenError(
                f"position {int(positions.max())} is outside the context of {len(cos)}."
            )
        return cos[positions.cpu()].to(dtype), sin[positions.cpu()].to(dtype)

    return Rotation(tables, interleaved=bool(cfg.rotary_adjacent_pairs))


def _bridged_rotation(bridge: Any) -> Rotation:
    whole = bridge.original_model
    kind = whole.config.model_type
    if kind not in _BRIDGED:  # others scale embeddings or gains where the bridge does not show it
        raise CheckpointError(
            f"{bridge.cfg.model_name} is a {kind}; of TransformerLens's bridges with rotary "
            f"positions only {' and '.join(_BRIDGED)} are taken, so load it with load_first_layer."
        )
    turning = next(m for name, m in whole.named_modules() if name.endswith("rotary_emb"))
    return position_tables.rotary(type(turning.original_component), whole.config)


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


def _check(cfg: Any, rotary: bool) -> None:
    """Refuse what the folding does not fit."""
    norms = ("LN", "LNPre", "RMS", "RMSPre") if rotary else ("LN", "LNPre")
    if cfg.normalization_type not in norms:
        raise CheckpointError(
            f"{cfg.model_name} normalises with {cfg.normalization_type!r}; with "
            f"{cfg.positional_embedding_type!r} positions the folding needs one of "
            f"{', '.join(norms)}."
        )
    if cfg.positional_embedding_type not in ("standard", "rotary"):
        raise CheckpointError(
            f"{cfg.model_name} has {cfg.positional_embedding_type!r} positions; from "
            "TransformerLens only 'standard' and 'rotary' ones are taken, so load it with "
            "load_first_layer."
        )
    if getattr(cfg, "use_qk_norm", False):
        raise CheckpointError(
            f"{cfg.model_name} normalises its queries and keys; load it with load_first_layer."
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
