"""Where named tensors come from: the protocol that all readers share, and a module in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from lnattn.errors import CheckpointError


@runtime_checkable
class WeightSource(Protocol):
    """Named tensors that are read one at a time, from a file, a cache or a module."""

    label: str

    def __contains__(self, name: str) -> bool: ...

    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        ...

    def read(self, name: str) -> Tensor:
        """The tensor as stored; `CheckpointError` where it cannot be read."""
        ...

    def record(self) -> dict[str, Any]:
        """What has been read, for provenance."""
        ...


class Named:
    """The tensors that an index of shards lists: their names and files, before any is fetched."""

    def __init__(self, label: str, where: Mapping[str, str]) -> None:
        self.label = label
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self.where

    def names(self) -> Iterable[str]:
        return self.where

    def read(self, name: str) -> Tensor:
        raise CheckpointError(f"{self.label}: {name!r} was not fetched; load the model anew.")

    def record(self) -> dict[str, Any]:
        return {}


def digest_of(tensor: Tensor) -> str:
    """SHA-256 over a tensor's dtype, shape and bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{tensor.dtype}:{list(tensor.shape)}:".encode())
    digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Readings:
    """What has been read of a source, for the record of what a result was made from."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.bytes_read = 0

    def note(self, name: str, tensor: Tensor) -> None:
        """Remember a tensor by its checksum; once is enough."""
        if name not in self.digests:
            self.digests[name] = digest_of(tensor)
            self.bytes_read += tensor.nbytes

    def record(self) -> dict[str, Any]:
        """Names, bytes, and one SHA-256 over names and contents of all tensors read.

        The same weights in another container, or read in part from the hub, have the same one.
        """
        lines = "".join(f"{name} {self.digests[name]}\n" for name in sorted(self.digests))
        return {
            "weights_sha256": hashlib.sha256(lines.encode()).hexdigest(),
            "tensors": sorted(self.digests),
            "bytes": self.bytes_read,
        }


class InMemory:
    """The tensors of a module's state, wherever it lies: they are read on the CPU, detached.

    label: how messages call the model; modules: those that hold the tensors, by name. A tensor that
    holds no numbers (on the meta device) or is in pieces (a sharded one) is a `CheckpointError`.
    """

    def __init__(
        self,
        label: str,
        tensors: Mapping[str, Tensor],
        modules: Mapping[str, nn.Module] | None = None,
    ) -> None:
        self.label = label
        self.tensors = tensors
        self.modules = modules or {}
        self.readings = Readings()

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def names(self) -> Iterable[str]:
        return self.tensors

    def read(self, name: str) -> Tensor:
        tensor = self.tensors[name].detach()
        if tensor.device.type == "meta":
            raise CheckpointError(
                f"{self.label}: {name!r} lies on the meta device and holds no numbers; load the "
                "model's weights first."
            )
        tensor = tensor.to("cpu", copy=True)  # training may go on meanwhile
        self.readings.note(name, tensor)
        return tensor

    def record(self) -> dict[str, Any]:
        """As `Readings.record`."""
        return self.readings.record()
