"""What the model is: family, sizes, positions, norm, biases, and what of it is exact here."""

from __future__ import annotations

import pandas as pd
from torch import Tensor

from lnattn.errors import LnattnError, capitalised
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Part, Table
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.weights import FirstLayer, LayerNorm, Norm


def about(evidence: Evidence) -> Part:
    """The first table of a report, and whether its tokenizer is what transformers makes of it."""
    rows = facts(evidence.model)
    table = pd.DataFrame(rows, columns=["", "value"]).set_index("")
    sentences = []
    if difference := _tokenizers_differ(evidence.whole):
        sentences.append(capitalised(difference))
    return Part(
        name="about",
        title="What the model is",
        sentences=sentences,
        tables=[Table(f"{evidence.model.name}: its first layer", table)],
        numbers=dict(rows),
    )


def facts(model: AnyFirstLayer) -> list[tuple[str, str]]:
    """Label and text of what is to be known of a first layer, from its weights."""
    layer = model.attention
    heads = f"{layer.n_heads} of width {layer.d_head}"
    if isinstance(model, RelativeFirstLayer) and len(model.attention.W_K) < layer.n_heads:
        heads += f", which share {len(model.attention.W_K)} key heads"
    rows = [
        ("Model", model.name),
        ("Family", str(model.provenance.get("model_type", "not known"))),
        ("Heads", heads),
        ("Width", f"{layer.d_model:,}"),
        ("Vocabulary", _vocabulary(model)),
        ("Positions", _positions(model)),
        ("Norm", _norm(layer.ln)),
        ("Biases", _biases(model)),
        ("Attention", _attention(model)),
        ("Scores are divided by", f"{layer.scale:.4g}"),
        ("Exact here", _exact(model)),
    ]
    return rows


def _vocabulary(model: AnyFirstLayer) -> str:
    size = model.embeddings.vocab_size
    return f"{size:,} tokens" if size else "no token embeddings in this checkpoint"


def _positions(model: AnyFirstLayer) -> str:
    if isinstance(model, FirstLayer):
        return f"{model.embeddings.n_positions:,} learned, added to the input"
    words = []
    if model.attention.rotation is not None:
        words.append("rotary")
    if model.attention.bias is not None:
        words.append("by a bias that depends on the distance")
    return ", and ".join(words) or "none in the first layer"


def _norm(norm: Norm | None) -> str:
    if norm is None:
        return "none before attention"
    return f"{type(norm).__name__}, ε = {norm.eps:g}"


def _biases(model: AnyFirstLayer) -> str:
    """Which biases there are; what a family does not have is stored as zeros."""
    layer = model.attention
    biases: dict[str, Tensor] = {"queries": layer.b_Q, "keys": layer.b_K}
    if isinstance(model, FirstLayer):
        biases |= {"values": model.attention.b_V, "output": model.attention.b_O}
    if isinstance(layer.ln, LayerNorm):
        biases["norm"] = layer.ln.beta
    return ", ".join(name for name, bias in biases.items() if bool(bias.any())) or "none"


def _attention(model: AnyFirstLayer) -> str:
    layer = model.attention
    words = "a query sees itself and earlier keys" if layer.causal else "a query sees all keys"
    if layer.window is not None:
        words += f", at most {layer.window:,}"
    if isinstance(model, RelativeFirstLayer):
        if model.attention.soft_cap is not None:
            words += f"; scores are bent at {model.attention.soft_cap:g}"
        if model.attention.sinks is not None:
            words += "; a learned sink of each head takes a share of its attention"
        if model.attention.norm_Q is not None:
            words += "; queries and keys are normalised"
    return words


def _exact(model: AnyFirstLayer) -> str:
    if isinstance(model, RelativeFirstLayer):
        return "the sum of four terms at every distance, from folded weights"
    if model.is_partial:
        return "the terms of positions, from folded weights"
    return "the sum of six terms, from folded weights"


def _tokenizers_differ(whole: object) -> str | None:
    """An example on which transformers' class of the tokenizer and its file disagree."""
    from pathlib import Path

    from lnattn.models.checkpoints import open_checkpoint
    from lnattn.models.choice import Choice
    from lnattn.models.tokenizer_files import disagreement

    if not isinstance(whole, str | Path | Choice):
        return None
    try:
        return disagreement(open_checkpoint(whole).folder)
    except LnattnError:
        return None
