"""`Counts`: exact unigram and bigram counts of a corpus, sparse, with provenance.

The bigrams are one sparse matrix read both ways: its rows (CSR) are the successors of a token, its
columns (CSC) the predecessors. Reading one row or column touches only that row or column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lnattn.errors import CorpusError, ResultError, TokenError
from lnattn.storage import read_result, sha256_of_arrays, write_result
from lnattn.text.pairs import Boundary, PairCounter


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each token, and each pair of neighbours, occurs in a corpus.

    unigrams: int64 [vocab]; bigrams: int64 CSR array [vocab vocab], rows are the previous token,
    columns the next (or the one `skip` places on, as the record says), no stored zeros; record:
    provenance (corpus, tokenizer, boundary convention), empty for counts made in memory.
    Raises `CorpusError` for arrays that contradict each other.
    """

    unigrams: np.ndarray
    bigrams: sparse.csr_array
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        vocab = len(self.unigrams)
        if self.bigrams.shape != (vocab, vocab):
            raise CorpusError(
                f"{vocab} unigram counts do not fit bigram counts of shape {self.bigrams.shape}."
            )
        for name, array in (("unigrams", self.unigrams), ("bigrams", self.bigrams.data)):
            if array.dtype != np.int64:
                raise CorpusError(f"the {name} must be int64 counts, not {array.dtype}.")
            if array.size and array.min() < 0:
                raise CorpusError(f"the {name} hold a negative count.")
        if not self.bigrams.has_canonical_format:
            raise CorpusError("the bigrams must be sorted, and each pair stored once.")

    @property
    def vocab_size(self) -> int:
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
        """A checksum of the counts themselves, whatever their record says."""
        return sha256_of_arrays(self._arrays())

    @cached_property
    def by_next(self) -> sparse.csc_array:
        """The same bigrams stored by column; made at the first use, then kept."""
        return self.bigrams.tocsc()

    def successors(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that follow `token`, ascending, and how often each does (int64)."""
        return _compressed_slice(self.bigrams, self._checked(token))

    def predecessors(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that precede `token`, ascending, and how often each does (int64)."""
        return _compressed_slice(self.by_next, self._checked(token))

    def count(self, previous: int, following: int) -> int:
        """How often the pair (previous, following) occurs."""
        tokens, counts = self.successors(previous)
        place = int(np.searchsorted(tokens, self._checked(following)))
        return int(counts[place]) if place < len(tokens) and tokens[place] == following else 0

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.vocab_size:
            raise TokenError(
                f"token {token} is not in the vocabulary of {self.vocab_size} that was counted."
            )
        return int(token)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[np.ndarray],
        vocab_size: int,
        boundary: Boundary | None = None,
        skip: int = 1,
    ) -> Counts:
        """Count documents of token ids, in memory; no pair spans two documents.

        boundary: what counts at a document's ends (default: nothing). skip: how far apart the
        tokens of a pair stand (1: neighbours).
        """
        counter = PairCounter(vocab_size, boundary, skip=skip, memory=1 << 62)
        for document in documents:
            tokens = np.asarray(document)
            counter.add(tokens, np.array([tokens.size]))
        record = {} if skip == 1 else {"skip": skip}
        return cls(counter.unigrams, _matrix(*next(counter.blocks()), vocab_size), record)

    @classmethod
    def from_stream(
        cls,
        tokens: np.ndarray,
        vocab_size: int,
        record: Mapping[str, Any] | None = None,
        skip: int = 1,
    ) -> Counts:
        """Count one stream of token ids, every pair of it that stands `skip` apart."""
        counted = cls.from_documents([tokens], vocab_size, skip=skip)
        return cls(counted.unigrams, counted.bigrams, {**counted.record, **(record or {})})

    def save(self, path: Path | str) -> Path:
        """Write `path` (.npz, compressed) and its record (.json beside it), atomically.

        Arrays: unigrams [vocab], and the CSR matrix as indptr [vocab+1], indices, data.
        """
        path = _npz(path)
        write_result(path.parent, path.stem, self._arrays(), self.record)
        return path

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "unigrams": self.unigrams,
            "indptr": self.bigrams.indptr.astype(np.int64),
            "indices": self.bigrams.indices.astype(np.int32),
            "data": self.bigrams.data,
        }

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
            arrays = _arrays_without_record(path)
        missing = {"unigrams", "indptr", "indices", "data"} - arrays.keys()
        if missing:
            raise ResultError(
                f"{path} holds no n-gram counts: {', '.join(sorted(missing))} absent."
            )
        vocab = len(arrays["unigrams"])
        try:
            bigrams = sparse.csr_array(
                (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(vocab, vocab)
            )
            bigrams.check_format(full_check=True)
        except ValueError as error:
            raise ResultError(f"{path} holds a broken matrix ({error}); count again.") from error
        return cls(arrays["unigrams"], bigrams, record)


def _npz(path: Path | str) -> Path:
    path = Path(path)
    return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")


def _arrays_without_record(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError as error:
        raise ResultError(f"{path} does not exist; make it with `lnattn count`.") from error
    except Exception as error:  # a damaged zip raises half a dozen unrelated types
        raise ResultError(f"{path} cannot be read ({error}); count again.") from error


def _compressed_slice(
    matrix: sparse.csr_array | sparse.csc_array, index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices and data of one row of a CSR array, or one column of a CSC array: views."""
    span = slice(matrix.indptr[index], matrix.indptr[index + 1])
    return matrix.indices[span], matrix.data[span]


def _matrix(keys: np.ndarray, counts: np.ndarray, vocab_size: int) -> sparse.csr_array:
    """Sorted keys previous · vocab + next, with their counts, as a CSR array."""
    indptr = np.zeros(vocab_size + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys // vocab_size, minlength=vocab_size), out=indptr[1:])
    indices = (keys % vocab_size).astype(np.int32)
    return sparse.csr_array((counts, indices, indptr), shape=(vocab_size, vocab_size))
