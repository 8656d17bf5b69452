"""How exact the algebra is in floating point: folded attention against Hugging Face's own.

Kamoda et al. 2025, §3.4: folding changes nothing (K1) in real numbers; in floating point the two
orders of operations round differently. These functions measure by how much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from lnattn.attention.folding import fold, softmax_over_keys
from lnattn.attention.forward import causal_mask, project
from lnattn.errors import ShapeError
from lnattn.inputs import require, whole_number
from lnattn.weights import AttentionLayer, FirstLayer, LayerNorm


class FoldingError(NamedTuple):
    """Largest differences between a folded block and the original, on one input.

    attention: max `|α' − α|`, absolute, since α lies in [0, 1]; output: `max |y' − y| / max |y|`.
    """

    attention: float
    output: float


def random_gpt2(
    seed: int, d_model: int, heads: int, dtype: torch.dtype = torch.float64, **config: Any
) -> GPT2LMHeadModel:
    """A GPT-2 with eager attention whose γ, β and biases are random, never 1 and 0.

    config: entries of `GPT2Config`, instead of one layer, 64 tokens and 128 positions. Raises
    `ShapeError` where the heads do not divide the width.
    """
    whole_number(d_model, "d_model")
    whole_number(heads, "heads")
    if d_model % heads:
        raise ShapeError(f"{heads} heads do not divide a width of {d_model}; give another.")
    sizes = {"n_layer": 1, "vocab_size": 64, "n_positions": 128, **config}
    settings = GPT2Config(
        n_embd=d_model,
        n_head=heads,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
        **sizes,
    )
    model = GPT2LMHeadModel(settings).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            gain = parameter.ndim == 1 and name.endswith("weight")
            size = d_model**-0.5 if parameter.ndim == 2 else 1.0
            parameter.copy_((1 + noise if gain else size * noise).to(dtype))
    return model


def block_of(model: GPT2LMHeadModel, layer: int = 0) -> AttentionLayer:
    """The attention block of a Hugging Face GPT-2 in memory, with the LayerNorm that feeds it."""
    whole_number(layer, "layer", 0, len(model.transformer.h) - 1)
    block = model.transformer.h[layer]
    heads = model.config.n_head
    d_model = model.config.n_embd
    d_head = d_model // heads
    joint = block.attn.c_attn
    out = block.attn.c_proj
    # One matrix holds W_Q, W_K and W_V side by side, each with its heads side by side.
    weights = joint.weight.detach().reshape(d_model, 3, heads, d_head).permute(1, 2, 0, 3)
    W_Q, W_K, W_V = weights.contiguous()
    b_Q, b_K, b_V = joint.bias.detach().reshape(3, heads, d_head)
    return AttentionLayer(
        ln=LayerNorm(
            gamma=block.ln_1.weight.detach(),
            beta=block.ln_1.bias.detach(),
            eps=float(block.ln_1.eps),
        ),
        W_Q=W_Q,
        W_K=W_K,
        W_V=W_V,
        W_O=out.weight.detach().reshape(heads, d_head, d_model),
        b_Q=b_Q,
        b_K=b_K,
        b_V=b_V,
        b_O=out.bias.detach(),
        index=layer,
    )


@torch.no_grad()
def block_error(
    model: GPT2LMHeadModel, x: Float[Tensor, "n d_model"], layer: int = 0
) -> FoldingError:
    """Compare `fold` with the block of a Hugging Face GPT-2 (eager attention) on inputs `x`."""
    block = model.transformer.h[layer]
    n = len(x)
    hidden = ~causal_mask(n, n)
    bias = torch.zeros(1, 1, n, n, dtype=x.dtype).masked_fill(hidden, torch.finfo(x.dtype).min)
    output, attention = block.attn(
        block.ln_1(x[None]), attention_mask=bias, output_attentions=True
    )[:2]
    folded = fold(block_of(model, layer))
    return FoldingError(
        attention=float((folded.attention(x) - attention[0]).abs().max()),
        output=float((folded.output(x) - output[0]).abs().max() / output.abs().max()),
    )


def table_of_errors(
    configurations: list[tuple[int, int]], length: int = 64, seed: int = 0
) -> pd.DataFrame:
    """`block_error` on random GPT-2 configurations [(d_model, heads)], in float32 and float64."""
    rows = []
    for d_model, heads in configurations:
        generator = torch.Generator().manual_seed(seed)
        x = 1 + torch.randn(length, d_model, generator=generator, dtype=torch.float64)
        for dtype in (torch.float32, torch.float64):
            error = block_error(random_gpt2(seed, d_model, heads, dtype), x.to(dtype))
            rows.append(
                {
                    "model": f"random, d = {d_model}, H = {heads}",
                    "dtype": str(dtype).removeprefix("torch."),
                    "attention": error.attention,
                    "output": error.output,
                }
            )
    return pd.DataFrame(rows, columns=["model", "dtype", "attention", "output"])


@torch.no_grad()
def attention_error(
    model: PreTrainedModel, first: FirstLayer, ids: Int[Tensor, "n"], dtype: torch.dtype
) -> float:
    """max `|α' − α|` between the folded first layer and a whole Hugging Face model run on `ids`."""
    reported = model.to(dtype)(ids[None], output_attentions=True).attentions[0][0]
    embeddings = first.embeddings.to(dtype)
    x = embeddings.tokens()[ids] + embeddings.W_P[: len(ids)]
    folded = fold(first.attention.to(dtype))
    return float((folded.attention(x) - reported).abs().max())


def original_attention(
    layer: AttentionLayer, x: Float[Tensor, "n d_model"]
) -> Float[Tensor, "head n n"]:
    """Attention computed as the model is written: LayerNorm, queries, keys with their bias."""
    require(layer, AttentionLayer, "layer")
    ln = layer.ln
    y = torch.nn.functional.layer_norm(x, (layer.d_model,), ln.gamma, ln.beta, ln.eps)
    scores = project(y, layer.W_Q, layer.b_Q) @ project(y, layer.W_K, layer.b_K).mT
    return softmax_over_keys(scores, layer.scale, layer.causal, window=layer.window)
