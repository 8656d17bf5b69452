"""`Counts`: exact unigram and bigram counts of a corpus, sparse, with provenance.

The bigrams are one sparse matrix read both ways: its rows (CSR) are the successors of a token, its
columns (CSC) the predecessors. Reading one row or column touches only that row or column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lnattn.errors import CorpusError, ResultError, TokenError
from lnattn.ids import whole_ids
from lnattn.storage import read_arrays, read_result, sha256_of_arrays, write_result

#: Tokens of the largest vocabulary that is counted: more than any tokenizer's, and 80 MB a count.
MOST_TOKENS = 10_000_000
#: Tokens that are collected before their pairs are sorted.
_BUFFER = 1 << 23
_NO_DOCUMENTS = "documents must be lists of token ids, not a {}; for a single document give [ids]."


@dataclass(frozen=True)
class Boundary:
    """What is counted at the two ends of a document, besides the pairs inside it.

    end: a token that follows the last token of every document, counted as a unigram too, or None;
    start: a token that precedes the first one, counted in that pair only, or None.
    With both `<|endoftext|>`, the counts are those of a training stream in which that token ends
    every document, plus one pair: the one before the first document.
    """

    end: int | None = None
    start: int | None = None


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each token, and each pair of neighbours, occurs in a corpus.

    unigrams: int64 [vocab]; bigrams: int64 CSR array [previous next] without stored zeros (next: or
    the one `skip` places on); record: provenance, empty for counts made in memory. Raises
    `CorpusError` for arrays that contradict each other.
    """

    unigrams: np.ndarray
    bigrams: sparse.csr_array
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.unigrams, np.ndarray) or not sparse.issparse(self.bigrams):
            raise CorpusError(
                "counts are a NumPy array of unigrams and a sparse matrix of bigrams; give "
                "scipy.sparse.csr_array(bigrams) for a dense one."
            )
        if self.bigrams.format != "csr" or self.unigrams.ndim != 1:
            raise CorpusError("the unigrams must be one row, and the bigrams a CSR array.")
        vocab = len(self.unigrams)
        if self.bigrams.shape != (vocab, vocab):
            raise CorpusError(
                f"{vocab} unigram counts do not fit bigram counts of shape {self.bigrams.shape}."
            )
        for name, array in (("unigrams", self.unigrams), ("bigrams", self.bigrams.data)):
            if array.dtype != np.int64 or (array.size and array.min() < 0):
                raise CorpusError(f"the {name} must be int64 counts, none of them negative.")
        if not self.bigrams.has_canonical_format:
            raise CorpusError("the bigrams must be sorted, and each pair stored once.")

    @property
    def vocab_size(self) -> int:
        """How many tokens the vocabulary has."""
        return len(self.unigrams)

    @property
    def tokens(self) -> int:
        """Tokens counted."""
        return int(self.unigrams.sum())

    @property
    def pairs(self) -> int:
        """Pairs of neighbours counted (with repetition)."""
        return int(self.bigrams.data.sum())

    @cached_property
    def sha256(self) -> str:
        """A checksum of the counts themselves, whatever their record says and however stored."""
        matrix = self.bigrams
        return sha256_of_arrays(
            {
                "unigrams": self.unigrams,
                "indptr": matrix.indptr.astype(np.int64),
                "indices": matrix.indices.astype(np.int32),
                "data": matrix.data,
            }
        )

    @cached_property
    def by_next(self) -> sparse.csc_array:
        """The same bigrams stored by column; made at the first use, then held."""
        return self.bigrams.tocsc()

    def predecessors(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that precede `token`, ascending, and how often each does (int64)."""
        (token,) = whole_ids([token], self.vocab_size)
        span = slice(*self.by_next.indptr[token : token + 2])
        return self.by_next.indices[span], self.by_next.data[span]

    def __add__(self, other: Counts) -> Counts:
        """The counts of both corpora together, without a record."""
        return Counts(self.unigrams + other.unigrams, self.bigrams + other.bigrams)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Any],
        vocab_size: int,
        boundary: Boundary | None = None,
        skip: int = 1,
    ) -> Counts:
        """Count documents of token ids, in memory; no pair spans two documents.

        boundary: what counts at a document's ends (default: nothing). skip: how far apart the
        tokens of a pair stand (1: neighbours). Raises `TokenError` for ids that are no integers or
        outside the vocabulary, and for a vocabulary larger than any tokenizer's (`MOST_TOKENS`).
        """
        boundary = boundary or Boundary()
        if not _is_whole(vocab_size) or not 1 <= vocab_size <= MOST_TOKENS:
            raise TokenError(
                f"vocab_size is {vocab_size}; a vocabulary has 1 to {MOST_TOKENS:,} tokens."
            )
        if not _is_whole(skip) or skip < 1:
            raise TokenError(f"skip is {skip}; the tokens of a pair stand 1 or more apart.")
        if not isinstance(boundary, Boundary):
            raise TokenError(f"boundary must be a Boundary, not a {type(boundary).__name__}.")
        for name, token in vars(boundary).items():
            if token is not None and not (_is_whole(token) and 0 <= token < vocab_size):
                raise TokenError(f"the {name} token {token} is not one of {vocab_size} tokens.")
        if not isinstance(documents, Iterable):
            raise TokenError(_NO_DOCUMENTS.format(type(documents).__name__))
        counts = _counted([], vocab_size, skip)
        batch: list[np.ndarray] = []
        size = 0
        number = 0
        for document in documents:
            batch.append(_framed(document, boundary, vocab_size))
            number += 1
            size += len(batch[-1])
            if size >= _BUFFER:
                counts += _counted(batch, vocab_size, skip)
                batch = []
                size = 0
        counts += _counted(batch, vocab_size, skip)
        if boundary.start is not None:
            counts.unigrams[boundary.start] -= number
        return cls(counts.unigrams, counts.bigrams, {"documents": number, "skip": skip})

    def save(self, path: Path | str) -> Path:
        """Write `path` (.npz, compressed) and its record (.json beside it), atomically.

        A row is stored as its length and the differences of its ascending columns (the first from
        0), most of which fit a byte; 255 there means that the number is the next one in the array
        NAME_large.
        """
        path = _npz(path)
        matrix = self.bigrams
        lengths = np.diff(matrix.indptr)
        gaps = np.diff(matrix.indices, prepend=0).astype(np.int64)
        first = matrix.indptr[:-1][lengths > 0]
        gaps[first] = matrix.indices[first]
        arrays = {"unigrams": _smallest(self.unigrams), "row_lengths": _smallest(lengths)}
        for name, values in (("gaps", gaps), ("counts", matrix.data)):
            arrays[name] = np.minimum(values, 255).astype(np.uint8)
            arrays[f"{name}_large"] = _smallest(values[values >= 255])
        write_result(path.parent, path.stem, arrays, self.record)
        return path

    @classmethod
    def load(cls, path: Path | str) -> Counts:
        """Read what `save` or `lnattn count` wrote; the arrays are checked against their record.

        An npz without a record beside it is read too, unverified, with an empty `record`.
        Raises `ResultError` when the file is missing, damaged, or holds something else.
        """
        path = _npz(path)
        record: dict[str, Any] = {}
        if path.with_suffix(".json").is_file():
            arrays, record = read_result(path.parent, path.stem)
        else:
            arrays = read_arrays(path)
        for name, array in arrays.items():
            if array.dtype.kind not in "iu" or array.ndim != 1:
                raise ResultError(
                    f"{path} holds no n-gram counts: {name} is {array.dtype} of {array.ndim} axes."
                )
        try:
            gaps = _unpacked(arrays, "gaps")
            data = _unpacked(arrays, "counts")
            unigrams = arrays["unigrams"].astype(np.int64)
            lengths = arrays["row_lengths"]
            if lengths.min(initial=0) < 0 or lengths.max(initial=0) > len(gaps):
                raise ValueError("a row is shorter than nothing or longer than all rows")
            indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            if indptr[-1] != len(gaps) or len(data) != len(gaps):
                raise ValueError(f"{indptr[-1]} pairs, {len(gaps)} gaps and {len(data)} counts")
            # Sums over the whole matrix, less what they were before each row.
            indices = np.cumsum(gaps)
            before = np.concatenate([[0], indices])[indptr[:-1]]
            indices -= np.repeat(before, np.diff(indptr))
            bigrams = sparse.csr_array((data, indices, indptr), shape=2 * (len(unigrams),))
            bigrams.check_format(full_check=True)
        except KeyError as error:
            raise ResultError(f"{path} holds no n-gram counts: {error} is absent.") from error
        except (ValueError, IndexError) as error:
            raise ResultError(f"{path} holds a broken matrix ({error}); count again.") from error
        if max(len(data), len(unigrams)) < 2**31:
            bigrams.indices = indices.astype(np.int32)
            bigrams.indptr = indptr.astype(np.int32)
        return cls(unigrams, bigrams, record)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _framed(document: Any, boundary: Boundary, vocab_size: int) -> np.ndarray:
    """The ids of a document between its boundary tokens, in the type of its pairs' keys."""
    if not isinstance(document, Sized):
        raise TokenError(_NO_DOCUMENTS.format(type(document).__name__))
    tokens: Any = whole_ids(document, vocab_size) if len(document) else []
    start = [] if boundary.start is None else [boundary.start]
    end = [] if boundary.end is None else [boundary.end]
    # Keys of half the size sort twice as fast; they suffice for 65,536 tokens.
    dtype = np.uint32 if vocab_size**2 <= 2**32 else np.int64
    return np.concatenate([start, tokens, end]).astype(dtype)


def _counted(documents: Sequence[np.ndarray], vocab_size: int, skip: int) -> Counts:
    """Count framed documents: the pair (a, b) is the key a · vocab + b, and keys are sorted.

    A hash table of millions of pairs misses the cache at every token; a sort reads memory in order.
    """
    tokens = np.concatenate([np.empty(0, np.int64), *documents])
    unigrams = np.bincount(tokens, minlength=vocab_size)
    pairs = [tokens[:-skip] * vocab_size + tokens[skip:] for tokens in documents]
    keys = np.concatenate([np.empty(0, np.uint32), *pairs])
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=keys[:1] ^ 1))
    rows, columns = np.divmod(keys[first].astype(np.int64), vocab_size)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=vocab_size))])
    counts = np.diff(first, append=len(keys))
    shape = (vocab_size, vocab_size)
    return Counts(unigrams, sparse.csr_array((counts, columns, indptr), shape=shape))


def _npz(path: Path | str) -> Path:
    path = Path(path)
    return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")


def _smallest(values: np.ndarray) -> np.ndarray:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _unpacked(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    values = arrays[name].astype(np.int64)
    stored_apart = arrays[name] == 255
    large = arrays[f"{name}_large"]
    if stored_apart.sum() != len(large):  # NumPy would repeat a single one
        raise ValueError(f"{len(large)} large {name} for {stored_apart.sum()} places")
    values[stored_apart] = large
    return values


def check_count_files(paths: Iterable[Path | str]) -> None:
    """`CorpusError` for a file of counts that is named and not there, before anything is read."""
    for path in paths:
        if not Path(path).is_file():
            raise CorpusError(
                f"there is no file of counts {path}; make it with lnattn count, or name another."
            )
