"""Composition scores of a model's heads, beside TransformerLens 4.

`pip install transformer-lens` into an environment of its own beside this package; where it is
absent, `run_all.py` leaves this benchmark out.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch
from common import ratio, time_side_by_side
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import lnattn
from lnattn.attention.circuits import KINDS, model_composition
from lnattn.paths import data_folder

#: Layers of GPT-2's width: TransformerLens holds the products of all pairs of heads at once.
LAYERS = 4


def noise_model(layers: int, width: int, heads: int) -> GPT2LMHeadModel:
    """A GPT-2 of noise, gains and biases too."""
    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=heads, n_positions=64, vocab_size=8192)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


@torch.no_grad()
def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    from transformer_lens.model_bridge import TransformerBridge

    layers, width, heads = (2, 32, 2) if quick else (LAYERS, 768, 12)
    model = noise_model(layers, width, heads)
    tokenizer = AutoTokenizer.from_pretrained(str(data_folder() / "book-gpt2"))
    blocks = [lnattn.first_layer(model, tokenizer, layer=i).attention for i in range(layers)]
    bridge = TransformerBridge.boot_transformers(
        "gpt2", hf_model=model, tokenizer=tokenizer, dtype=torch.float32
    )

    def theirs() -> torch.Tensor:
        return torch.stack([bridge.all_composition_scores(kind).scores for kind in KINDS])

    ours = model_composition(blocks)
    possible = ours.possible().expand(ours.scores.shape)
    apart = float((ours.scores - theirs())[possible].abs().max())
    if apart > 1e-4:
        raise RuntimeError(f"the two differ by {apart:.1e}; nothing was timed.")
    name = f"TransformerLens {version('transformer-lens')}"
    times = time_side_by_side(
        {name: theirs, "lnattn": lambda: model_composition(blocks)},
        repeats=1 if quick else 5,
    )
    return {
        "title": "Composition of all head pairs, beside TransformerLens",
        "what": (
            f"Q-, K- and V-composition scores of all heads of {layers} layers of noise, of GPT-2 "
            "small's width, by `all_composition_scores` of TransformerLens and by ours."
        ),
        "workload": {"layers": layers, "d_model": width, "heads": heads, "apart": apart},
        "rows": [timing.as_row() for timing in times.values()],
        "ratios": [ratio(times[name], times["lnattn"])],
        "growth": [],
        "notes": [
            "Both from the factors. TransformerLens also computes the pairs that cannot compose, "
            "and sets them to 0; ours also makes the spectra for a null.",
        ],
    }
