"""Reading single tensors out of safetensors files, and keeping account of what was read."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lnattn.errors import CheckpointError

#: Names that safetensors gives to the number types, and what torch calls them.
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

#: A header longer than this is no header of a real checkpoint (the format's own limit).
_LONGEST_HEADER = 100_000_000


def digest_of(tensor: Tensor) -> str:
    """SHA-256 over a tensor's dtype, shape and bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{tensor.dtype}:{list(tensor.shape)}:".encode())
    digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
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


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies in a safetensors file: byte offsets from the file's start."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    def decode(self, stored: bytes | bytearray) -> Tensor:
        """The tensor that these bytes are."""
        flat = torch.frombuffer(bytearray(stored), dtype=DTYPES[self.dtype])
        return flat.reshape(self.shape)


def header_length(first_eight: bytes, label: str) -> int:
    """Length in bytes of a safetensors header, from the first eight bytes of the file."""
    (length,) = struct.unpack("<Q", first_eight) if len(first_eight) == 8 else (0,)
    if not 2 <= length <= _LONGEST_HEADER:
        raise CheckpointError(
            f"{label} is no safetensors file (its header would be {length} bytes long); "
            "give a checkpoint in that format."
        )
    return length


def parse_header(
    header: bytes, file_size: int, label: str
) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """All tensors of a safetensors file and its metadata, from its header alone.

    file_size is the length of the whole file; a header that promises more, or less, than there is
    raises `CheckpointError`: the file is cut short or damaged.
    """
    try:
        raw: dict[str, Any] = json.loads(header)
        metadata = raw.pop("__metadata__", {})
        entries = {name: _entry(item, offset=8 + len(header)) for name, item in sorted(raw.items())}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{label} has a damaged safetensors header ({type(error).__name__}: {error}); "
            "fetch it again."
        ) from error
    end = max((entry.stop for entry in entries.values()), default=8 + len(header))
    if end != file_size:
        raise CheckpointError(
            f"{label} is {file_size} bytes long where its header describes {end}: it is cut short "
            "or damaged; fetch it again."
        )
    return entries, metadata


def _entry(item: dict[str, Any], offset: int) -> TensorEntry:
    dtype, shape = item["dtype"], tuple(int(size) for size in item["shape"])
    start, stop = (int(value) for value in item["data_offsets"])
    width = DTYPES[dtype].itemsize
    count = 1
    for size in shape:
        count *= size
    if not 0 <= start <= stop or stop - start != count * width:
        raise ValueError(f"{stop - start} bytes for {count} numbers of {width} bytes")
    return TensorEntry(dtype, shape, offset + start, offset + stop)


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
        raise CheckpointError(f"{path} is no valid JSON ({error}); fetch it again.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is no JSON object; fetch it again.")
    return config
