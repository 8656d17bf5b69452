"""Random models and layers for identity tests: nothing in them is 1 or 0 by convention."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lnattn import AttentionLayer, Embeddings, LayerNorm


def randomise(model: torch.nn.Module, seed: int, scale: float = 0.5) -> torch.nn.Module:
    """Replace every parameter by Gaussian noise; gains are spread around 1 and may be negative."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_gain = parameter.ndim == 1 and name.endswith("weight")
            value = 1 + noise if is_gain else scale * noise
            parameter.copy_(value.to(parameter.dtype))
    return model


def random_gpt2(
    seed: int,
    layers: int = 1,
    d_model: int = 24,
    heads: int = 3,
    vocab: int = 40,
    context: int = 32,
    dtype: torch.dtype = torch.float64,
    eps: float = 1e-5,
) -> GPT2LMHeadModel:
    """A GPT-2 with eager attention and random parameters, in evaluation mode."""
    config = GPT2Config(
        vocab_size=vocab,
        n_positions=context,
        n_embd=d_model,
        n_layer=layers,
        n_head=heads,
        layer_norm_epsilon=eps,
        bos_token_id=0,
        eos_token_id=0,
    )
    config._attn_implementation = "eager"
    return randomise(GPT2LMHeadModel(config).to(dtype), seed).eval()  # type: ignore[return-value]


def attention_layer(model: GPT2LMHeadModel, layer: int = 0) -> AttentionLayer:
    """The attention block of a Hugging Face GPT-2, read from the module by hand."""
    block = model.transformer.h[layer]
    heads = model.config.n_head
    d = model.config.n_embd

    def split(matrix: torch.Tensor) -> torch.Tensor:
        return matrix.reshape(d, heads, d // heads).permute(1, 0, 2).contiguous()

    w_q, w_k, w_v = block.attn.c_attn.weight.detach().split(d, dim=1)
    b_q, b_k, b_v = block.attn.c_attn.bias.detach().reshape(3, heads, d // heads)
    return AttentionLayer(
        ln=LayerNorm(block.ln_1.weight.detach(), block.ln_1.bias.detach(), float(block.ln_1.eps)),
        W_Q=split(w_q),
        W_K=split(w_k),
        W_V=split(w_v),
        W_O=block.attn.c_proj.weight.detach().reshape(heads, d // heads, d),
        b_Q=b_q,
        b_K=b_k,
        b_V=b_v,
        b_O=block.attn.c_proj.bias.detach(),
    )


def embeddings_of(model: GPT2LMHeadModel) -> Embeddings:
    """Token and position embeddings of a Hugging Face GPT-2."""
    return Embeddings(model.transformer.wte.weight.detach(), model.transformer.wpe.weight.detach())


def random_layer(
    seed: int, d_model: int, heads: int, d_head: int, causal: bool = True
) -> AttentionLayer:
    """A random attention block in float64 whose d_head need not be d_model / heads."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return AttentionLayer(
        ln=LayerNorm(1 + noise(d_model), noise(d_model), 1e-5),
        W_Q=noise(heads, d_model, d_head) / d_model**0.5,
        W_K=noise(heads, d_model, d_head) / d_model**0.5,
        W_V=noise(heads, d_model, d_head),
        W_O=noise(heads, d_head, d_model),
        b_Q=noise(heads, d_head),
        b_K=noise(heads, d_head),
        b_V=noise(heads, d_head),
        b_O=noise(d_model),
        causal=causal,
    )
