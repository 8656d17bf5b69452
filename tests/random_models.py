"""Random models and layers for identity tests: nothing in them is 1 or 0 by convention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from families import make
from transformers import GPT2LMHeadModel

from lnattn import AttentionLayer, Embeddings, LayerNorm, plain
from lnattn.models.architectures import GPT2
from lnattn.models.sources import InMemory
from lnattn.models.whole_gpt2 import assemble
from lnattn.transformer import Transformer
from lnattn_book.studies import identities


def random_gpt2(  # noqa: PLR0913 (sizes of a model, by name)
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
    return make(
        "gpt2",
        dtype,
        seed,
        scale=0.5,
        num_hidden_layers=layers,
        n_embd=d_model,
        n_head=heads,
        n_inner=None,
        vocab_size=vocab,
        n_positions=context,
        layer_norm_epsilon=eps,
    )


#: The attention block of a Hugging Face GPT-2, read from the module by hand.
attention_layer = identities.block_of


def transformer_of(weights: Mapping[str, torch.Tensor], config: Mapping[str, Any]) -> Transformer:
    """A whole GPT-2 from a state dict and a mapping as in config.json."""
    return assemble(GPT2(config, InMemory("the state dict", weights)))


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


def plain_layer(layer: AttentionLayer) -> plain.Layer:
    """The same block for `lnattn.plain`, the oracle: NumPy arrays in double precision."""
    weights = (layer.W_Q, layer.W_K, layer.W_V, layer.W_O, layer.b_Q, layer.b_K, layer.b_V)
    return plain.Layer(
        layer.ln.gamma.double().numpy(),
        layer.ln.beta.double().numpy(),
        layer.ln.eps,
        *(weight.double().numpy() for weight in (*weights, layer.b_O)),
        scale=layer.scale,
        causal=layer.causal,
    )


def plain_rows(embeddings: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """W_E and W_P for `lnattn.plain`."""
    return embeddings.tokens().double().numpy(), embeddings.W_P.double().numpy()
