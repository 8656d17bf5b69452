"""Files and single tensors of a hub repository, each fetched when first needed, then kept.

A safetensors file begins with a table of where each tensor lies. That table is read first, by two
small range requests, and then each tensor by its own range of bytes.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from lnattn.errors import CheckpointError, HubError
from lnattn.models import download
from lnattn.models.download import NotFoundOnHub, offline
from lnattn.models.weights import Account, TensorEntry, digest_of, header_length, parse_header
from lnattn.storage import write_atomically, write_json


@dataclass(frozen=True)
class Pin:
    """A model repository and the one commit of it that results refer to."""

    repo: str
    revision: str


def endpoint() -> str:
    """Address of the hub."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def cache_folder() -> Path:
    """Where tensors and small files of hub models are kept."""
    if chosen := os.environ.get("LNATTN_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lnattn"


def url_of(pin: Pin, file: str) -> str:
    return f"{endpoint()}/{pin.repo}/resolve/{pin.revision}/{file}"


def nothing_cached(pin: Pin) -> str:
    return (
        f"{pin.repo} at {pin.revision[:12]} is not in the cache and the network is switched off "
        "(HF_HUB_OFFLINE); use 'book-gpt2', a local folder, or fetch it once with a network."
    )


def _files_of(index: Path) -> list[str]:
    """The files that an index of shards names."""
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index} is no index of shards; delete it and try again.") from error


def small_file(pin: Pin, folder: Path, name: str, local_only: bool = False) -> Path | None:
    """A file of the repository, fetched once; None where the repository has none.

    A commit never changes, so that a file is absent is remembered as well.
    """
    path, absent = folder / name, folder / f"{name}.absent"
    if path.is_file():
        return path
    if absent.is_file() or local_only or offline():
        return None
    try:
        download.fetch(url_of(pin, name), path)
    except NotFoundOnHub:
        if name == "config.json":
            raise
        absent.touch()
        return None
    return path


@dataclass
class HubWeights(Account):
    """Tensors of a checkpoint on the hub, each fetched when first read, then kept.

    Beside every cached tensor lies its SHA-256, made when it arrived; one that no longer matches
    is fetched again.
    """

    pin: Pin
    folder: Path
    #: Never ask the hub, whatever is missing.
    local_only: bool = False
    #: Tensor name → (file of the checkpoint, where it lies in it).
    _where: dict[str, tuple[str, TensorEntry]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        index = small_file(self.pin, self.folder, "model.safetensors.index.json", self.local_only)
        files = ["model.safetensors"] if index is None else _files_of(index)
        for file in files:
            entries, metadata = self._table(file)
            self._where.update({name: (file, entry) for name, entry in entries.items()})
            self.metadata.update(metadata)
        self.files = tuple(files)

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def read(self, name: str) -> Tensor:
        """One tensor as stored, from the cache or by a range request."""
        file, entry = self._where[name]
        path = self._path(name)
        if not self.has_cached(name):
            if self.local_only or offline():
                raise HubError(nothing_cached(self.pin))
            download.fetch(url_of(self.pin, file), path, entry.start, entry.stop)
            tensor = entry.decode(path.read_bytes())
            digest = digest_of(tensor)
            write_atomically(self._seal(name), lambda f: f.write(digest.encode("ascii")))
        else:
            tensor = entry.decode(path.read_bytes())
        return self.enter(name, tensor)

    def has_cached(self, name: str) -> bool:
        """True where the tensor is in the cache, complete and unchanged since it arrived."""
        path, seal = self._path(name), self._seal(name)
        _, entry = self._where[name]
        if not (path.is_file() and seal.is_file()):
            return False
        if path.stat().st_size != entry.stop - entry.start:
            return False
        return digest_of(entry.decode(path.read_bytes())) == seal.read_text(encoding="ascii")

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, without reading it."""
        return self._where[name][1].shape

    def record(self) -> dict[str, Any]:
        return {"files": list(self.files), **super().record()}

    def _path(self, name: str) -> Path:
        return self.folder / "tensors" / f"{name.replace('/', '--')}.raw"

    def _seal(self, name: str) -> Path:
        return self._path(name).with_suffix(".sha256")

    def _table(self, file: str) -> tuple[dict[str, TensorEntry], dict[str, str]]:
        """The header of one safetensors file, from the cache or by two small range requests."""
        label = f"{self.pin.repo}/{file}"
        path, size = self.folder / f"{file}.header", self.folder / f"{file}.size.json"
        if not (path.is_file() and size.is_file()):
            if self.local_only or offline():
                raise HubError(nothing_cached(self.pin))
            self._fetch_header(file, label, path, size)
        total = json.loads(size.read_text(encoding="utf-8"))["bytes"]
        return parse_header(path.read_bytes(), total, label)

    def _fetch_header(self, file: str, label: str, path: Path, size: Path) -> None:
        first = path.with_suffix(".length")
        try:
            answer = download.fetch(url_of(self.pin, file), first, 0, 8)
        except NotFoundOnHub as error:
            raise CheckpointError(
                f"{self.pin.repo} at {self.pin.revision[:12]} has no {file}; its weights may be a "
                "pickle, which could run code when opened: save it as safetensors into a local "
                "folder (save_pretrained) and name that."
            ) from error
        length = header_length(first.read_bytes(), label)
        later = download.fetch(url_of(self.pin, file), path, 8, 8 + length)
        total = next((a.size for a in (later, answer) if a is not None and a.size), None)
        if total is None:
            raise HubError(f"{endpoint()} does not say how long {label} is; try again later.")
        write_json(size, {"bytes": total})
