"""Counts against the obvious way, a Counter of zip(tokens, tokens[skip:]) for each document."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.errors import ResultError, TokenError
from lnattn.storage import read_json, write_json
from lnattn.text import counts as counts_module
from lnattn.text.counts import Boundary, Counts

VOCAB = 7

documents_of_tokens = st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=9), max_size=12)
boundaries = st.sampled_from([Boundary(), Boundary(end=3), Boundary(start=3, end=3)])


def by_counter(documents, boundary=None, skip=1) -> tuple[dict, dict]:
    boundary = boundary or Boundary()
    start = [] if boundary.start is None else [boundary.start]
    end = [] if boundary.end is None else [boundary.end]
    unigrams, pairs = Counter(), Counter()
    for document in documents:
        unigrams.update([*document, *end])
        framed = [*start, *document, *end]
        pairs.update(zip(framed, framed[skip:], strict=False))
    return dict(unigrams), dict(pairs)


def as_dicts(counts: Counts) -> tuple[dict, dict]:
    table = counts.bigrams.tocoo()
    keys = zip(table.row.tolist(), table.col.tolist(), strict=True)
    unigrams = {token: int(n) for token, n in enumerate(counts.unigrams) if n}
    return unigrams, dict(zip(keys, table.data.tolist(), strict=True))


def zipf_documents(seed: int, number: int, vocab: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 60, size=number)
    return [(generator.zipf(1.3, size=n) % vocab).astype(np.int32) for n in lengths]


@settings(max_examples=100, deadline=None)
@given(documents_of_tokens, boundaries, st.integers(1, 5), st.integers(1, 4))
def test_counting_equals_a_counter(documents, boundary, buffer, skip) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "_BUFFER", buffer)  # sorted every few tokens
        counts = Counts.from_documents(documents, VOCAB, boundary, skip)
    assert as_dicts(counts) == by_counter(documents, boundary, skip)
    assert counts.record == {"documents": len(documents), "skip": skip}


def test_the_first_token_may_stand_at_a_boundary() -> None:
    counts = Counts.from_documents([[1, 2]], VOCAB, Boundary(start=0, end=0))
    assert as_dicts(counts) == by_counter([[1, 2]], Boundary(start=0, end=0))


@settings(max_examples=20, deadline=None)
@given(documents_of_tokens, documents_of_tokens)
def test_the_sum_of_two_counts_counts_both(first, second) -> None:
    both = Counts.from_documents(first, VOCAB) + Counts.from_documents(second, VOCAB)
    assert as_dicts(both) == by_counter(first + second)


@pytest.mark.parametrize("vocab", [65_536, 65_537, 100_003])
def test_keys_of_a_large_vocabulary_do_not_overflow(vocab) -> None:
    tokens = np.array([vocab - 1, vocab - 1, 0, vocab - 1, vocab - 1], dtype=np.int32)
    counts = Counts.from_documents([tokens], vocab)
    assert counts.bigrams[vocab - 1, vocab - 1] == 2
    assert counts.bigrams[vocab - 1, 0] == counts.bigrams[0, vocab - 1] == 1
    assert counts.pairs == 4


def test_rows_columns_and_pairs_agree_with_the_counter() -> None:
    documents = [d.tolist() for d in zipf_documents(2, 60, 30)]
    counts = Counts.from_documents(documents, 30)
    unigrams, pairs = by_counter(documents)
    assert counts.tokens == sum(unigrams.values())
    assert counts.pairs == sum(pairs.values())
    for token in range(30):
        found = dict(zip(*map(np.ndarray.tolist, counts.predecessors(token)), strict=True))
        assert found == {a: n for (a, b), n in pairs.items() if b == token}


def test_save_and_load(tmp_path) -> None:
    counts = Counts.from_documents([np.arange(50) % 7], 9)
    counts.save(tmp_path / "small")
    for name in ("small", "small.npz"):
        read = Counts.load(tmp_path / name)
        assert as_dicts(read) == as_dicts(counts)
        assert (read.unigrams.dtype, read.bigrams.data.dtype) == (np.int64, np.int64)
        assert read.record["documents"] == 1
        assert read.sha256 == counts.sha256
    (tmp_path / "small.json").unlink()
    assert Counts.load(tmp_path / "small").record == {}


@pytest.mark.parametrize("vocab", [300, 70_000])
def test_gaps_and_counts_beyond_a_byte_are_stored_exactly(tmp_path, vocab) -> None:
    """Among them 254, 255 and 256, the last column, an empty first and an empty last row."""
    ends = [0, 253, 254, 255, 256, 257, vocab - 1]
    documents = [[1, end] for i, end in enumerate(ends) for _ in range(253 + i)]
    counts = Counts.from_documents([*documents, [2, vocab - 2]], vocab)
    read = Counts.load(counts.save(tmp_path / "x.npz"))
    assert as_dicts(read) == as_dicts(counts) == by_counter([*documents, [2, vocab - 2]])


@pytest.mark.parametrize("ids", [[1.5, 2.0], np.array([True])])
def test_ids_that_are_no_integers_are_refused(ids) -> None:
    with pytest.raises(TokenError, match=r"float64|bool"):
        Counts.from_documents([ids], 3)


def test_arrays_that_do_not_match_their_record_are_refused(tmp_path) -> None:
    path = Counts.from_documents([np.arange(5)], 5).save(tmp_path / "c.npz")
    record = read_json(path.with_suffix(".json"))
    write_json(path.with_suffix(".json"), {**record, "arrays_sha256": "0" * 64})
    with pytest.raises(ResultError, match="checksum"):
        Counts.load(path)


def test_nothing_at_all_is_counted_as_nothing() -> None:
    counts = Counts.from_documents([], 4)
    assert (counts.tokens, counts.pairs) == (0, 0)
    assert counts.predecessors(2)[0].size == 0
    assert Counts.from_documents([np.array([], dtype=np.int32), np.array([2])], 4).pairs == 0


def test_a_vocabulary_that_nobody_has_is_refused_before_memory_is_asked_for():
    with pytest.raises(TokenError, match="10,000,000"):
        Counts.from_documents([[1]], 10**9)
