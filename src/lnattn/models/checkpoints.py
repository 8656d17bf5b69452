"""Finding a checkpoint and reading from it only what the analysis of its attention needs.

A name is a local folder, or `"book-gpt2"`, the model that ships with the book. Weights are read
from safetensors files only, one tensor at a time; nothing in a checkpoint is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lnattn.errors import CheckpointError
from lnattn.models.architectures import Family, family_of
from lnattn.models.layers import AttentionLayer, FirstLayer
from lnattn.storage import read_json, sha256_of_file

#: The model that ships with the repository.
BOOK_MODEL = "book-gpt2"

#: Where a folder may keep its weights, in order of preference. `attention.safetensors` is a
#: partial checkpoint; `checkpoint/best.safetensors` a training run that is still going on.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "attention.safetensors",
    "checkpoint/best.safetensors",
)
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json")


@dataclass
class LocalWeights:
    """The tensors of one or more safetensors files; keeps account of what was read.

    label: how messages call the checkpoint; files: the shards. Raises `CheckpointError` for a
    file that is missing, cut short, or no safetensors file.
    """

    label: str
    files: tuple[Path, ...]
    #: SHA-256 of every tensor read so far, over its dtype, shape and bytes.
    digests: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
    #: What the files say about themselves, besides the tensors.
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._where: dict[str, Any] = {}
        for path in self.files:
            handle = _open(path)
            self._where.update(dict.fromkeys(handle.keys(), handle))
            self.metadata.update(handle.metadata() or {})

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def read(self, name: str) -> Tensor:
        """One tensor as stored; the rest of the file stays on disk."""
        tensor = self._where[name].get_tensor(name)
        stored = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        digest = hashlib.sha256(f"{tensor.dtype}:{list(tensor.shape)}:".encode())
        digest.update(stored)
        self.digests[name] = digest.hexdigest()
        self.bytes_read += stored.nbytes
        return tensor

    def record(self) -> dict[str, Any]:
        """What was read: names, bytes, and one SHA-256 over names and contents.

        The checksum depends on the tensors and not on the file around them, so the same weights
        in another container, or read in part from the hub, give the same one.
        """
        lines = "".join(f"{name} {self.digests[name]}\n" for name in sorted(self.digests))
        return {
            "files": [path.name for path in self.files],
            "weights_sha256": hashlib.sha256(lines.encode()).hexdigest(),
            "tensors": sorted(self.digests),
            "bytes": self.bytes_read,
        }


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}; fetch the checkpoint again.") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is no readable safetensors file ({error}): it is cut short, damaged or in "
            "another format; fetch it again."
        ) from error


def load_first_layer(name_or_path: str | Path, layer: int = 0) -> FirstLayer:
    """Load the embeddings and one attention block, with its LayerNorm, of a model.

    name_or_path: `"book-gpt2"`, or a local folder with config.json and safetensors weights. A
    folder without token embeddings (a partial checkpoint) loads too: `is_partial` is then true,
    and `provenance["analyses"]` says what can be computed.
    layer: index of the block, counted from 0. Any block can be folded; only block 0 reads the
    embeddings, so the six terms are defined for it alone.

    Weights come in float32, or in the checkpoint's own dtype if that is wider.
    Raises `CheckpointError`, in one sentence, for whatever is wrong with the checkpoint.
    """
    checkpoint = open_checkpoint(name_or_path)
    family = checkpoint.family
    attention = family.attention(checkpoint.check_layer(layer))
    embeddings = family.embeddings()
    return FirstLayer(
        embeddings=embeddings,
        attention=attention,
        tokenizer=_tokenizer(checkpoint.folder),
        provenance={
            **checkpoint.provenance(),
            **family.notes(layer),
            "analyses": _analyses(embeddings.W_E is None, layer),
        },
        layer=layer,
    )


def load_attention_layers(name_or_path: str | Path) -> list[AttentionLayer]:
    """Load all attention blocks of a model, first to last, without its embeddings.

    Takes the same names as `load_first_layer`, partial checkpoints included, and raises the same
    errors.
    """
    family = open_checkpoint(name_or_path).family
    return [family.attention(layer) for layer in range(family.n_layers)]


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: where it is, and how to read it."""

    name: str
    folder: Path
    weights: LocalWeights
    family: Family
    notes: Mapping[str, Any]

    def check_layer(self, layer: int) -> int:
        if not 0 <= layer < self.family.n_layers:
            raise CheckpointError(
                f"{self.name} has {self.family.n_layers} layers, counted from 0; "
                f"there is no layer {layer}."
            )
        return layer

    def provenance(self) -> dict[str, Any]:
        """Where the weights are from; complete once everything has been read."""
        about = {key: text for key, text in self.weights.metadata.items() if key != "format"}
        return {
            "name": self.name,
            # The folder's own name only: a path tells about a machine, not about the weights.
            "source": f"local folder {self.folder.resolve().name}",
            "revision": None,
            "model_type": self.family.config["model_type"],
            **self.weights.record(),
            **({"metadata": about} if about else {}),
            **self.notes,
        }


def open_checkpoint(name_or_path: str | Path) -> Checkpoint:
    """Find a checkpoint by name and open its weights, reading no tensor yet."""
    folder = _folder_of(name_or_path)
    is_book = str(name_or_path) == BOOK_MODEL
    name = BOOK_MODEL if is_book else folder.resolve().name
    files = _weight_files(folder)
    notes: dict[str, Any] = {}
    if files[0].parent.name == "checkpoint":
        notes["snapshot"] = "the best weights so far of a training run that has not finished"
    elif is_book:
        _check_book_model(folder)
    weights = LocalWeights(name, files)
    return Checkpoint(name, folder, weights, family_of(_config(folder), weights), notes)


def data_folder() -> Path:
    """The repository's `data/`: $LNATTN_DATA if set, else beside the package's source."""
    chosen = os.environ.get("LNATTN_DATA")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[3] / "data"


def _folder_of(name_or_path: str | Path) -> Path:
    if str(name_or_path) == BOOK_MODEL:
        folder = data_folder() / BOOK_MODEL
        if not folder.is_dir():
            raise CheckpointError(
                f"the book's model is not at {folder}; run from a checkout of the repository, or "
                "set LNATTN_DATA to its data folder."
            )
        return folder
    folder = Path(name_or_path).expanduser()
    if not folder.is_dir():
        raise CheckpointError(
            f"there is no model folder {str(name_or_path)!r}; give a folder with config.json and "
            f"safetensors weights, or {BOOK_MODEL!r}."
        )
    return folder


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: the usual one, all shards, or the only one there is."""
    found = next((folder / name for name in _WEIGHT_FILES if (folder / name).is_file()), None)
    if found is not None and found.suffix == ".json":
        return _shards(found)
    if found is not None:
        return (found,)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return (others[0],)
    if others:
        raise CheckpointError(
            f"{folder} holds {len(others)} safetensors files and no index that joins them; add "
            "model.safetensors.index.json, or keep one file."
        )
    pickles = [path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)]
    if pickles:
        raise CheckpointError(
            f"{folder} holds its weights only as a pickle ({pickles[0]}), which may run code when "
            "it is opened; save it as safetensors with save_pretrained first."
        )
    raise CheckpointError(
        f"{folder} holds no safetensors weights; give a folder with model.safetensors in it."
    )


def _shards(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"{index} is no index of shards ({type(error).__name__}); fetch it again."
        ) from error
    if any(Path(name).name != name for name in names):
        raise CheckpointError(f"{index} points outside its folder; do not use this checkpoint.")
    return tuple(index.parent / name for name in names)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder} has no config.json, so the layout of its weights is unknown; "
            "add the one that belongs to them."
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is no valid JSON ({error}); fetch it again.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is no JSON object; fetch it again.")
    return config


def _check_book_model(folder: Path) -> None:
    """The embedded model must be the one that its training record describes."""
    record = folder / "training.json"
    path = folder / "model.safetensors"
    if record.is_file() and read_json(record).get("weights_sha256") != sha256_of_file(path):
        raise CheckpointError(
            f"{path} is not the file that training.json describes (their SHA-256 differ); "
            "restore both from the repository."
        )


def _tokenizer(folder: Path) -> Any:
    """The folder's tokenizer; None where it has no tokenizer file at all."""
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return None
    from lnattn.text.tokenizers import load_tokenizer  # imports transformers, slow

    try:
        return load_tokenizer(folder)
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise CheckpointError(
            f"the tokenizer in {folder} cannot be read ({error}); fetch its files again."
        ) from error


def _analyses(partial: bool, layer: int) -> str:
    """Which analyses the loaded weights allow, as a sentence."""
    if partial:
        return (
            "no token embeddings: folding, composition and the position-only terms (before the "
            "division by σ) can be computed; terms that involve a token, and σ, cannot"
        )
    if layer > 0:
        return "folding only: the six terms are defined for layer 0, which reads the embeddings"
    return "all"
