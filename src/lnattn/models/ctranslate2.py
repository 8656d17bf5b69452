"""The decoder of a Whisper that was converted for CTranslate2, under the names of Hugging Face.

The format (version 6) is a list of variables: name, sizes, type, bytes; it holds no code. A linear
map is stored as torch stores it, [out in]; queries, keys and values lie one below the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from lnattn.errors import CheckpointError, one_line

#: NumPy's types by CTranslate2's numbers of them.
_TYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_VERSION = 6
#: Parts of a block: CTranslate2's name, Hugging Face's.
_NORMS = {
    "self_attention/layer_norm": "self_attn_layer_norm",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "ffn/layer_norm": "final_layer_norm",
}
_LINEAR = {
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_2": "encoder_attn.out_proj",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}
#: Linear maps that lie one below the other in one variable.
_STACKED = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
}


def read_whisper_decoder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Configuration and tensors of a converted Whisper's decoder, as Hugging Face names them.

    path: a model.bin of CTranslate2. The tensors keep their type (float16). Raises
    `CheckpointError` for a file that is cut short or in another version or of another model, and
    where keys have a bias, which Whisper's have not.
    """
    try:
        with path.open("rb") as file:
            variables = dict(_variables(file, path))
        return _named(variables)
    except (KeyError, ValueError, struct.error, UnicodeDecodeError, OSError) as error:
        raise CheckpointError(
            f"{path} is no Whisper in CTranslate2's format ({one_line(error)}); install its "
            "package anew."
        ) from error


def _variables(file: BinaryIO, path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """All variables of a file, in its order."""

    def number(kind: str) -> int:
        return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])

    def text() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    if (version := number("I")) != _VERSION:
        raise CheckpointError(f"{path} is in version {version} of CTranslate2's format, not 6.")
    text()  # the kind of model
    number("I")  # and its revision
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind = _TYPES[number("B")]
        data = file.read(number("I"))
        yield name, np.frombuffer(data, dtype=kind).reshape(shape)


def _named(variables: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The decoder's configuration and tensors, of all variables."""

    def tensor(name: str) -> Tensor:
        return torch.from_numpy(variables[f"decoder/{name}"].copy())

    at = "model.decoder."
    tensors = {
        f"{at}embed_tokens.weight": tensor("embeddings/weight"),
        f"{at}embed_positions.weight": tensor("position_encodings/encodings"),
        f"{at}layer_norm.weight": tensor("layer_norm/gamma"),
        f"{at}layer_norm.bias": tensor("layer_norm/beta"),
    }
    layers = 0
    while f"decoder/layer_{layers}/ffn/linear_0/weight" in variables:
        here = f"{at}layers.{layers}."
        there = f"layer_{layers}/"
        for theirs, ours in _NORMS.items():
            tensors[f"{here}{ours}.weight"] = tensor(f"{there}{theirs}/gamma")
            tensors[f"{here}{ours}.bias"] = tensor(f"{there}{theirs}/beta")
        for theirs, ours in _LINEAR.items():
            tensors[f"{here}{ours}.weight"] = tensor(f"{there}{theirs}/weight")
            tensors[f"{here}{ours}.bias"] = tensor(f"{there}{theirs}/bias")
        for theirs, several in _STACKED.items():
            for kind in ("weight", "bias"):
                parts = tensor(f"{there}{theirs}/{kind}").chunk(len(several))
                for ours, part in zip(several, parts, strict=True):
                    tensors[f"{here}{ours}.{kind}"] = part.contiguous()
        layers += 1
    _drop_key_biases(tensors)
    vocab, d_model = tensors[f"{at}embed_tokens.weight"].shape
    config = {
        "model_type": "whisper",
        "d_model": d_model,
        "decoder_attention_heads": int(variables["decoder/num_heads"]),
        "decoder_layers": layers,
        "decoder_ffn_dim": len(tensors[f"{at}layers.0.fc1.weight"]),
        "max_target_positions": len(tensors[f"{at}embed_positions.weight"]),
        "vocab_size": vocab,
        "activation_function": "gelu",
        "tie_word_embeddings": True,
    }
    return config, tensors


def _drop_key_biases(tensors: dict[str, Tensor]) -> None:
    """Take out the biases of keys, which CTranslate2 fills with zeros."""
    for name in [name for name in tensors if name.endswith("k_proj.bias")]:
        if tensors.pop(name).any():
            raise ValueError(f"{name} is not zero")
