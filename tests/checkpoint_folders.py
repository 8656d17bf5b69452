"""Small checkpoints of every family that the explorer's page opens, in noise, as folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from families import randomise

DATA = Path(__file__).resolve().parents[1] / "data"
_VOCAB = {"vocab_size": 8192, "bos_token_id": 8191, "eos_token_id": 8191, "pad_token_id": 1}
_COMMON = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, **_VOCAB}
_GPT2 = {"n_embd": 48, "n_head": 4, "n_layer": 1, "n_positions": 40, **_VOCAB}
_PLACES = {**_COMMON, "max_position_embeddings": 40}
_LLAMA = {**_COMMON, "num_key_value_heads": 2, "intermediate_size": 48}
_LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0},
    **{"high_freq_factor": 4.0, "original_max_position_embeddings": 16},
}
#: Class, configuration and stored type of each.
FAMILIES: dict[str, tuple[str, dict[str, Any], torch.dtype]] = {
    "gpt2": ("GPT2Model", _GPT2, torch.float32),
    "gpt2-prefixed": ("GPT2LMHeadModel", _GPT2, torch.float16),
    "bert": ("BertModel", _PLACES, torch.float32),
    "llama": ("LlamaForCausalLM", _LLAMA, torch.bfloat16),
    "llama3": ("LlamaModel", {**_LLAMA, "rope_parameters": _LLAMA3}, torch.float32),
    "qwen2": ("Qwen2ForCausalLM", _LLAMA, torch.float32),
}  # fmt: skip


def checkpoint(folder: Path, family: str) -> Path:
    """A checkpoint of the family, with the tokenizer of book-gpt2."""
    name, settings, dtype = FAMILIES[family]
    kind = getattr(transformers, name)
    model = randomise(kind(kind.config_class(**settings)), seed=5, scale=0.2)
    model.to(dtype).save_pretrained(folder)
    # Qwen's tokenizer puts no token first, and names none.
    for file in ("tokenizer.json", "tokenizer_config.json")[: 1 if family == "qwen2" else 2]:
        shutil.copy(DATA / "book-gpt2" / file, folder)
    return folder
