"""Counting tokens and pairs at a fixed distance, document by document, in bounded memory.

The pair (a, b) becomes the key a · vocab + b, and keys are counted by sorting. A hash table of
millions of pairs misses the cache at every token; a sort reads memory in order, and NumPy sorts
integers with the processor's vector instructions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import no_type_check

import numpy as np
from numba import njit

from lnattn.errors import TokenError
from lnattn.text.runs import Run, merge_all, merge_two, merged_blocks, run_of, write_run

#: Keys collected before they are sorted (32 or 64 MiB of them).
_BUFFER = 1 << 23


@dataclass(frozen=True)
class Boundary:
    """What is counted at the two ends of a document, besides the pairs inside it.

    end: a token that follows the last token of every document, counted as a unigram too, or None;
    start: a token that precedes the first one, counted in that pair only, or None.
    With both <|endoftext|>, the counts are those of a training stream in which that token ends
    every document, plus one pair: the one before the first document.
    """

    end: int | None = None
    start: int | None = None


class PairCounter:
    """Unigram and pair counts of the documents added so far.

    skip: how far apart the tokens of a pair stand: 1 for neighbours, 2 with one token between.
    memory: bytes that its sorted runs may use, about. When they outgrow it they are written to
    a temporary folder inside `folder` (default: the system's), and merged when they are read.
    Raises `TokenError` for a vocabulary or a boundary token that cannot be.
    """

    def __init__(
        self,
        vocab_size: int,
        boundary: Boundary | None = None,
        *,
        skip: int = 1,
        memory: int = 1 << 29,
        folder: Path | None = None,
        buffer: int | None = None,
    ) -> None:
        if not 1 <= vocab_size < 2**31:
            raise TokenError(f"a vocabulary of {vocab_size} tokens cannot be counted.")
        if skip < 1:
            raise TokenError(f"the tokens of a pair stand 1 or more apart, not {skip}.")
        boundary = boundary or Boundary()
        for name, token in (("start", boundary.start), ("end", boundary.end)):
            if token is not None and not 0 <= token < vocab_size:
                raise TokenError(f"the {name} token {token} is not one of {vocab_size} tokens.")
        self.vocab_size = vocab_size
        self.unigrams = np.zeros(vocab_size, dtype=np.int64)
        self.documents = 0
        self._skip = skip
        self._start = -1 if boundary.start is None else boundary.start
        self._end = -1 if boundary.end is None else boundary.end
        # Keys of half the size sort twice as fast; they suffice for 65,536 tokens.
        self._keys = np.empty(buffer or _BUFFER, np.uint32 if vocab_size**2 <= 2**32 else np.uint64)
        self._used = 0
        self._runs: list[Run] = []
        # While two runs are merged, both and the result are held.
        self._limit = max(1, memory // 3 // (self._keys.itemsize + 8))
        self._folder = folder
        self._spill: tempfile.TemporaryDirectory | None = None
        self._files: list[Path] = []

    def add(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Count documents that lie one after the other in `tokens`.

        tokens: integers [sum of lengths]; lengths: the documents' lengths, integers [documents].
        Raises `TokenError` for ids outside the vocabulary or lengths that do not add up; then
        nothing was counted.
        """
        if tokens.size and (tokens.min() < 0 or tokens.max() >= self.vocab_size):
            raise TokenError(
                f"token ids from {tokens.min()} to {tokens.max()} do not fit a vocabulary of "
                f"{self.vocab_size}."
            )
        ends = np.cumsum(lengths, dtype=np.int64)
        if (ends[-1] if len(ends) else 0) != tokens.size:
            raise TokenError(
                f"the lengths of {len(ends)} documents do not add up to {tokens.size}."
            )
        tokens = np.ascontiguousarray(tokens, dtype=np.int32)
        state = (0, 0)
        while state[1] < len(ends):
            if self._used == len(self._keys):
                self._sort_buffer()
            *state, self._used = _collect(
                tokens,
                ends,
                *state,
                self._skip,
                self._start,
                self._end,
                self.unigrams,
                self._keys,
                self._used,
            )
        self.documents += len(ends)

    def _sort_buffer(self) -> None:
        if not self._used:
            return
        self._runs.append(run_of(self._keys[: self._used]))
        self._used = 0
        # Merge runs of like size, so that an entry is copied a logarithmic number of times.
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [merge_two(*self._runs[-2:])]
        if sum(len(keys) for keys, _ in self._runs) > self._limit:
            self._write_runs()

    def _write_runs(self) -> None:
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(dir=self._folder, prefix="spill-")
        path = Path(self._spill.name) / f"{len(self._files):06d}.run"
        self._files.append(write_run(path, [merge_all(self._runs)]))
        self._runs = []

    def blocks(self) -> Iterator[Run]:
        """The pair counts as successive blocks of one sorted run; more may be added after."""
        self._sort_buffer()
        if not self._files:
            self._runs = [merge_all(self._runs, self._keys.dtype.type)]
            yield self._runs[0]
            return
        if self._runs:
            self._write_runs()
        yield from merged_blocks(self._files, 3 * self._limit * (self._keys.itemsize + 8))


@njit(nogil=True, cache=True)
@no_type_check  # the tests' shape checker cannot wrap what numba compiles
def _collect(tokens, ends, position, document, skip, start, end, unigrams, keys, used):
    """Count tokens and write keys until the tokens or the buffer are used up.

    Returns where it stopped: (position, document, used).
    """
    vocab = len(unigrams)
    while document < len(ends):
        begin = ends[document - 1] if document else 0
        while position < ends[document]:
            if used == len(keys):
                return position, document, used
            token = np.int64(tokens[position])
            unigrams[token] += 1
            previous = _before(tokens, begin, position - skip, start)
            if previous >= 0:
                keys[used] = previous * vocab + token
                used += 1
            position += 1
        if end >= 0:
            if used == len(keys):
                return position, document, used
            unigrams[end] += 1
            previous = _before(tokens, begin, position - skip, start)
            if previous >= 0:
                keys[used] = previous * vocab + end
                used += 1
        document += 1
    return position, document, used


@njit(nogil=True, cache=True, inline="always")
@no_type_check
def _before(tokens, begin, place, start):
    """The token at a place of the document that begins at `begin`, −1 where there is none."""
    if place >= begin:
        return np.int64(tokens[place])
    return np.int64(start) if place == begin - 1 else np.int64(-1)
