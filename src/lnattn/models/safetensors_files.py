"""Reading single tensors out of safetensors files, and keeping account of what was read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lnattn.errors import CheckpointError


def digest_of(tensor: Tensor) -> str:
    """SHA-256 over a tensor's dtype, shape and bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{tensor.dtype}:{list(tensor.shape)}:".encode())
    digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass
class Account:
    """What has been read from a checkpoint: names, bytes, checksum. Base of all sources.

    label: how messages call the checkpoint.
    """

    label: str
    digests: dict[str, str] = field(default_factory=dict, kw_only=True)
    bytes_read: int = field(default=0, kw_only=True)
    #: What the files say about themselves, besides the tensors.
    metadata: dict[str, str] = field(default_factory=dict, kw_only=True)

    def enter(self, name: str, tensor: Tensor) -> Tensor:
        """Note that `tensor` was read under `name`; returns it."""
        if name not in self.digests:
            self.digests[name] = digest_of(tensor)
            self.bytes_read += tensor.nbytes
        return tensor

    def record(self) -> dict[str, Any]:
        """Names, bytes, and one SHA-256 over names and contents of all tensors read.

        The checksum depends on the tensors and not on the file around them, so the same weights
        in another container, or read in part from the hub, give the same one.
        """
        lines = "".join(f"{name} {self.digests[name]}\n" for name in sorted(self.digests))
        return {
            "weights_sha256": hashlib.sha256(lines.encode()).hexdigest(),
            "tensors": sorted(self.digests),
            "bytes": self.bytes_read,
        }


@dataclass
class LocalWeights(Account):
    """The tensors of one or more safetensors files on disk.

    files: the shards. Raises `CheckpointError` for a file that is missing, cut short, or no
    safetensors file.
    """

    files: tuple[Path, ...]

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
        return self.enter(name, self._where[name].get_tensor(name))

    def record(self) -> dict[str, Any]:
        return {"files": [path.name for path in self.files], **super().record()}


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


def read_config(path: Path) -> dict[str, Any]:
    """A checkpoint's config.json; `CheckpointError` where it is missing or damaged."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path.parent} has no config.json, so the layout of its weights is unknown; "
            "add the one that belongs to them."
        ) from error
    except ValueError as error:
        raise CheckpointError(
            f"{path} is no valid JSON ({error}); delete it to have it fetched anew, or mend it."
        ) from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is no JSON object; delete it, or mend it.")
    return config
