"""A rotary checkpoint of noise that reads real text: SmolLM2, where there is no hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import transformers

from lnattn.paths import data_folder


def narrow_llama(folder: Path, *, layers: int = 2, seed: int = 1) -> Path:
    """Write it: two heads that share keys, half precision, and book-llama's own 8,192 tokens."""
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=24,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
    )
    torch.manual_seed(seed)
    transformers.AutoModel.from_config(config).half().save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(data_folder() / "book-llama" / name, folder / name)
    return folder
