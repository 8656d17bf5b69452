"""Writing counts that are larger than memory: what `Counts.save` writes, or a table of pairs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lnattn.storage import read_json, write_atomically, write_json, write_result
from lnattn.text.runs import Run


def write_counts(
    path: Path, blocks: Iterable[Run], vocab_size: int, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Write counts to `path` (.npz or .parquet) and their completed record beside it; return that.

    blocks: successive blocks of a sorted run. Keys below vocab² are pairs, previous · vocab + next;
    keys from vocab² on are tokens.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        distinct = _write_parquet(path, blocks, vocab_size)
        about = write_json(path.with_suffix(".json"), {**record, "distinct_pairs": distinct})
    else:
        about = _write_npz(path, blocks, vocab_size, record)
    return read_json(about)


@dataclass
class _Tally:
    """Splits blocks into pairs and tokens, and keeps the tokens."""

    vocab_size: int

    def __post_init__(self) -> None:
        self.unigrams = np.zeros(self.vocab_size, dtype=np.int64)

    def pairs(self, blocks: Iterable[Run]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(previous, next, count) of successive blocks: int32, int32, int64."""
        for keys, counts in blocks:
            cut = int(np.searchsorted(keys, self.vocab_size**2))
            previous, following = np.divmod(keys[:cut].astype(np.int64), self.vocab_size)
            self.unigrams[keys[cut:].astype(np.int64) - self.vocab_size**2] = counts[cut:]
            if cut:
                yield previous.astype(np.int32), following.astype(np.int32), counts[:cut]


def _write_npz(
    path: Path, blocks: Iterable[Run], vocab_size: int, record: Mapping[str, Any]
) -> Path:
    tally = _Tally(vocab_size)
    indptr = np.zeros(vocab_size + 1, dtype=np.int64)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as folder:
        files = Path(folder) / "indices", Path(folder) / "data"
        with files[0].open("wb") as indices, files[1].open("wb") as data:
            for previous, following, counts in tally.pairs(blocks):
                indptr[1:] += np.bincount(previous, minlength=vocab_size)
                indices.write(following.data)
                data.write(counts.data)
        arrays = {
            "unigrams": tally.unigrams,
            "indptr": np.cumsum(indptr),
            "indices": _mapped(files[0], np.int32),
            "data": _mapped(files[1], np.int64),
        }
        record = {**record, "distinct_pairs": len(arrays["data"])}
        return write_result(path.parent, path.stem, arrays, record)


def _mapped(path: Path, dtype: type) -> np.ndarray:
    """An array that stays in its file."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def _write_parquet(path: Path, blocks: Iterable[Run], vocab_size: int) -> int:
    """Pairs as a table (previous, next, count), tokens as NAME.unigrams.parquet (token, count)."""
    import pyarrow
    import pyarrow.parquet

    tally = _Tally(vocab_size)
    types = {"previous": pyarrow.int32(), "next": pyarrow.int32(), "count": pyarrow.int64()}
    schema = pyarrow.schema(list(types.items()))
    distinct = 0

    def write(file: BinaryIO) -> None:
        nonlocal distinct
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            for columns in tally.pairs(blocks):
                writer.write_table(pyarrow.table(list(columns), schema=schema))
                distinct += len(columns[0])

    write_atomically(path, write)
    tokens = {"token": np.arange(vocab_size, dtype=np.int32), "count": tally.unigrams}
    write_atomically(
        path.with_suffix(".unigrams.parquet"),
        lambda file: pyarrow.parquet.write_table(pyarrow.table(tokens), file),
    )
    return distinct
