"""Taking a model over from TransformerLens, processed or not."""

from __future__ import annotations

from typing import Any

import torch

from lnattn.errors import CheckpointError
from lnattn.models.layers import AttentionLayer, Embeddings, FirstLayer, LayerNorm


def from_transformer_lens(model: Any, layer: int = 0) -> FirstLayer:
    """A `FirstLayer` with the weights of a TransformerLens `HookedTransformer`.

    Accepts models loaded with and without their weight processing. Where TransformerLens has
    already folded γ and β into the weights (normalization_type "LNPre"), they are 1 and 0 here,
    and folding again changes nothing. TransformerLens itself need not be installed.

    Raises `CheckpointError` for a normalisation or a kind of position that does not fit.
    """
    cfg = model.cfg
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
    if not 0 <= layer < len(model.blocks):
        raise CheckpointError(f"{cfg.model_name} has {len(model.blocks)} layers, no layer {layer}.")
    block = model.blocks[layer]
    attn = block.attn
    d_model = attn.W_Q.shape[1]
    if cfg.normalization_type == "LN":
        ln = LayerNorm(block.ln1.w.detach(), block.ln1.b.detach(), float(cfg.eps))
    else:
        ones = torch.ones(d_model, dtype=attn.W_Q.dtype)
        ln = LayerNorm(ones, torch.zeros_like(ones), float(cfg.eps))
    names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
    weights = {name: getattr(attn, name).detach().cpu() for name in names}
    return FirstLayer(
        Embeddings(model.embed.W_E.detach().cpu(), model.pos_embed.W_pos.detach().cpu()),
        AttentionLayer(
            ln=ln.to(weights["W_Q"].dtype),
            **weights,
            causal=cfg.attention_dir == "causal",
            scale=float(cfg.attn_scale) if cfg.use_attn_scale else 1.0,
        ),
        tokenizer=model.tokenizer,
        provenance={"name": cfg.model_name, "source": "TransformerLens", "revision": None},
        layer=layer,
    )
