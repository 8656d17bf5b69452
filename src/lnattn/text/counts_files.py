"""Writing counts that are larger than memory: the same files as `Counts.save`, block by block."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lnattn.storage import write_atomically, write_json
from lnattn.text.runs import Run

#: Array elements held in memory at a time.
_CHUNK = 1 << 20


def write_counts(
    path: Path, blocks: Iterable[Run], vocab_size: int, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Write counts to `path` (.npz or .parquet) and their completed record beside it; return that.

    blocks: successive blocks of a sorted run. Keys below vocab² are pairs, previous · vocab + next;
    keys from vocab² on are tokens.
    """
    write = _write_parquet if path.suffix == ".parquet" else _write_npz
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = write(path, blocks, vocab_size)
    complete = {**record, **facts}
    write_json(path.with_suffix(".json"), complete)
    return complete


@dataclass
class _Tally:
    """Splits blocks into pairs and tokens, and keeps what fits in memory."""

    vocab_size: int

    def __post_init__(self) -> None:
        self.unigrams = np.zeros(self.vocab_size, dtype=np.int64)
        self.row_lengths = np.zeros(self.vocab_size, dtype=np.int64)

    def pairs(self, blocks: Iterable[Run]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(previous, next, count) of successive blocks: int64, int32, int64."""
        for keys, counts in blocks:
            cut = int(np.searchsorted(keys, self.vocab_size**2))
            previous, following = np.divmod(keys[:cut].astype(np.int64), self.vocab_size)
            self.row_lengths += np.bincount(previous, minlength=self.vocab_size)
            tokens = keys[cut:].astype(np.int64) - self.vocab_size**2
            self.unigrams[tokens] = counts[cut:]
            if cut:
                yield previous, following.astype(np.int32), counts[:cut]


@dataclass(frozen=True)
class _FileArray:
    """A one-dimensional array that lies in a file of its raw bytes."""

    path: Path
    dtype: np.dtype

    def __len__(self) -> int:
        return self.path.stat().st_size // self.dtype.itemsize

    def chunks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while chunk := file.read(_CHUNK * self.dtype.itemsize):
                yield chunk


@dataclass(frozen=True)
class _MemoryArray:
    """The same interface for an array in memory."""

    array: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def chunks(self) -> Iterator[bytes]:
        yield self.array.tobytes()


def _write_npz(path: Path, blocks: Iterable[Run], vocab_size: int) -> dict[str, Any]:
    tally = _Tally(vocab_size)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as name:
        indices = _FileArray(Path(name) / "indices", np.dtype("<i4"))
        data = _FileArray(Path(name) / "data", np.dtype("<i8"))
        with indices.path.open("wb") as index_file, data.path.open("wb") as data_file:
            for _, following, counts in tally.pairs(blocks):
                index_file.write(following.astype("<i4").data)
                data_file.write(counts.astype("<i8").data)
        indptr = np.concatenate([[0], np.cumsum(tally.row_lengths)])
        arrays: dict[str, _FileArray | _MemoryArray] = {
            "unigrams": _MemoryArray(tally.unigrams),
            "indptr": _MemoryArray(indptr),
            "indices": indices,
            "data": data,
        }
        write_atomically(path, lambda file: _write_members(file, arrays))
        return {"distinct_pairs": len(indices), "arrays_sha256": _sha256(arrays)}


def _write_members(file: BinaryIO, arrays: Mapping[str, _FileArray | _MemoryArray]) -> None:
    """An npz is a zip of .npy files: a header, then the bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {
                    "descr": array.dtype.str,
                    "fortran_order": False,
                    "shape": (len(array),),
                }
                np.lib.format.write_array_header_1_0(member, header)
                for chunk in array.chunks():
                    member.write(chunk)


def _sha256(arrays: Mapping[str, _FileArray | _MemoryArray]) -> str:
    """What `lnattn.storage.sha256_of_arrays` gives for the same arrays in memory."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{(len(array),)}".encode())
        for chunk in array.chunks():
            digest.update(chunk)
    return digest.hexdigest()


def _write_parquet(path: Path, blocks: Iterable[Run], vocab_size: int) -> dict[str, Any]:
    """Pairs as a table (previous, next, count), tokens as NAME.unigrams.parquet (token, count)."""
    import pyarrow
    import pyarrow.parquet

    tally = _Tally(vocab_size)
    names = ["previous", "next", "count"]
    schema = pyarrow.schema(
        list(zip(names, [pyarrow.int32(), pyarrow.int32(), pyarrow.int64()], strict=True))
    )
    distinct = 0

    def write(file: BinaryIO) -> None:
        nonlocal distinct
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            for previous, following, counts in tally.pairs(blocks):
                columns = [previous.astype(np.int32), following, counts]
                writer.write_table(pyarrow.table(columns, schema=schema))
                distinct += len(counts)

    write_atomically(path, write)
    tokens = {"token": np.arange(vocab_size, dtype=np.int32), "count": tally.unigrams}
    write_atomically(
        path.with_suffix(".unigrams.parquet"),
        lambda file: pyarrow.parquet.write_table(pyarrow.table(tokens), file),
    )
    return {"distinct_pairs": distinct}
