"""Sorted runs: from a buffer of keys to counts, merging counts, also on disk in bounded memory.

A *run* is a pair of arrays of equal length: keys, ascending and distinct (uint32 or uint64), and
how often each occurs (int64). A run file holds its entries one after the other as little-endian
uint64 (key, count): nothing else, so that its length tells the number of entries and any part of
it can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, no_type_check

import numpy as np
from numba import njit

from lnattn.errors import CorpusError
from lnattn.storage import write_atomically

Run = tuple[np.ndarray, np.ndarray]

#: Bytes of one entry on disk.
ENTRY = 16


def run_of(keys: np.ndarray) -> Run:
    """The run of an array of keys in any order. Sorts `keys` in place."""
    keys.sort()
    return _count_equal(keys)


def merge_all(runs: Sequence[Run], dtype: type = np.uint64) -> Run:
    """One run out of any number; counts of equal keys are added. `dtype` is that of no runs."""
    runs = list(runs)
    if not runs:
        return np.empty(0, dtype), np.empty(0, np.int64)
    while len(runs) > 1:
        # Neighbours two by two: every entry is copied log2(runs) times, not once for each run.
        merged = [merge_two(a, b) for a, b in zip(runs[::2], runs[1::2], strict=False)]
        runs = merged + runs[2 * len(merged) :]
    return runs[0]


def merge_two(a: Run, b: Run) -> Run:
    """The run of all keys of two runs; counts of equal keys are added."""
    return _merge(a[0], a[1], b[0], b[1])


def write_run(path: Path, blocks: Iterable[Run]) -> Path:
    """Write a run, given as successive blocks, atomically."""

    def write(file: BinaryIO) -> None:
        for keys, counts in blocks:
            entries = np.empty((len(keys), 2), dtype="<u8")
            entries[:, 0] = keys
            entries[:, 1] = counts
            file.write(entries.data)

    return write_atomically(path, write)


def read_run(path: Path, first: int = 0, count: int = -1) -> Run:
    """`count` entries of a run file from number `first` on (default: all): uint64 and int64."""
    entries = np.fromfile(
        path, dtype="<u8", count=2 * count if count >= 0 else -1, offset=first * ENTRY
    )
    entries = entries.reshape(-1, 2)
    return entries[:, 0].astype(np.uint64), entries[:, 1].astype(np.int64)


def run_length(path: Path) -> int:
    """The number of entries in a run file; `CorpusError` if it was cut short."""
    size = path.stat().st_size
    if size % ENTRY:
        raise CorpusError(f"{path} was cut short: {size} bytes are no whole number of entries.")
    return size // ENTRY


def merged_blocks(paths: Sequence[Path], memory: int = 1 << 28) -> Iterator[Run]:
    """Merge run files: successive blocks of the one sorted run of all of them.

    memory: bytes for the blocks that are held at a time, about. Every file is read once, front to
    back, and none stays open.
    """
    # An entry is held as it is read, once more as a column, and once more while it is merged.
    share = max(1, memory // (3 * ENTRY * max(1, len(paths))))
    readers = [_Reader(path, share) for path in paths]
    while readers := [reader for reader in readers if reader.fill()]:
        # Up to the smallest last key of a reader that has more on disk, all entries are at hand.
        limits = [reader.keys[-1] for reader in readers if reader.unread]
        yield merge_all([reader.take(min(limits) if limits else None) for reader in readers])


class _Reader:
    """One run file, read in blocks."""

    def __init__(self, path: Path, block: int) -> None:
        self.path, self.block = path, block
        self.length = run_length(path)
        self.position = 0
        self.keys = np.empty(0, np.uint64)
        self.counts = np.empty(0, np.int64)

    @property
    def unread(self) -> int:
        return self.length - self.position

    def fill(self) -> bool:
        """Make sure that a block is at hand; False when the file is used up."""
        if not len(self.keys) and self.unread:
            count = min(self.block, self.unread)
            self.keys, self.counts = read_run(self.path, self.position, count)
            self.position += count
        return len(self.keys) > 0

    def take(self, limit: np.uint64 | None) -> Run:
        """Remove and return the entries at hand with keys up to `limit` (None: all)."""
        cut = len(self.keys) if limit is None else int(np.searchsorted(self.keys, limit, "right"))
        taken = self.keys[:cut], self.counts[:cut]
        self.keys, self.counts = self.keys[cut:], self.counts[cut:]
        return taken


@njit(nogil=True, cache=True)
@no_type_check  # the tests' shape checker cannot wrap what numba compiles
def _count_equal(keys):
    distinct = 0
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            distinct += 1
    unique = np.empty(distinct, keys.dtype)
    counts = np.zeros(distinct, np.int64)
    place = -1
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            place += 1
            unique[place] = keys[i]
        counts[place] += 1
    return unique, counts


@njit(nogil=True, cache=True)
@no_type_check  # the tests' shape checker cannot wrap what numba compiles
def _merge(keys_a, counts_a, keys_b, counts_b):
    keys = np.empty(len(keys_a) + len(keys_b), keys_a.dtype)
    counts = np.empty(len(keys), np.int64)
    i, j, size = 0, 0, 0
    while i < len(keys_a) and j < len(keys_b):
        a, b = keys_a[i], keys_b[j]
        keys[size] = min(a, b)
        counts[size] = (counts_a[i] if a <= b else 0) + (counts_b[j] if b <= a else 0)
        i += a <= b
        j += b <= a
        size += 1
    while i < len(keys_a):
        keys[size], counts[size] = keys_a[i], counts_a[i]
        i, size = i + 1, size + 1
    while j < len(keys_b):
        keys[size], counts[size] = keys_b[j], counts_b[j]
        j, size = j + 1, size + 1
    # Copies: views would keep the untrimmed arrays alive.
    return keys[:size].copy(), counts[:size].copy()
