"""Counts against the obvious way, a Counter of zip(tokens, tokens[1:]) for each document."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.errors import CorpusError, ResultError, TokenError
from lnattn.storage import read_json, write_json
from lnattn.text.counts import Counts
from lnattn.text.pairs import Boundary, PairCounter
from lnattn.text.runs import (
    merge_all,
    merge_two,
    merged_blocks,
    read_run,
    run_length,
    run_of,
    write_run,
)

VOCAB = 7

documents_of_tokens = st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=9), max_size=12)
boundaries = st.sampled_from([Boundary(), Boundary(end=3), Boundary(start=3, end=3)])


def by_counter(documents, boundary=None, skip=1) -> tuple[Counter, Counter]:
    boundary = boundary or Boundary()
    start = [] if boundary.start is None else [boundary.start]
    end = [] if boundary.end is None else [boundary.end]
    unigrams, pairs = Counter(), Counter()
    for document in documents:
        unigrams.update([*document, *end])
        framed = [*start, *document, *end]
        pairs.update(zip(framed, framed[skip:], strict=False))
    return unigrams, pairs


def as_arrays(documents, dtype=np.int32) -> tuple[np.ndarray, np.ndarray]:
    flat = [token for document in documents for token in document]
    return np.array(flat, dtype=dtype), np.array([len(d) for d in documents], dtype=np.int64)


def pairs_of(keys, counts, vocab=VOCAB) -> dict:
    return {(int(k) // vocab, int(k) % vocab): int(c) for k, c in zip(keys, counts, strict=True)}


def zipf_documents(seed: int, number: int, vocab: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 60, size=number)
    return [(generator.zipf(1.3, size=n) % vocab).astype(np.int32) for n in lengths]


@settings(max_examples=100, deadline=None)
@given(documents_of_tokens, boundaries, st.integers(1, 5), st.integers(1, 4))
def test_counting_equals_a_counter(documents, boundary, buffer, skip) -> None:
    unigrams, pairs = by_counter(documents, boundary, skip)
    # A buffer of a few keys: documents are cut by it in every possible way.
    counter = PairCounter(VOCAB, boundary, skip=skip, buffer=buffer)
    counter.add(*as_arrays(documents))
    (keys, counts) = next(counter.blocks())
    assert pairs_of(keys, counts) == dict(pairs)
    assert np.all(np.diff(keys.astype(np.int64)) > 0)
    assert {t: int(c) for t, c in enumerate(counter.unigrams) if c} == dict(unigrams)
    assert counter.documents == len(documents)


@settings(max_examples=25, deadline=None)
@given(documents_of_tokens, documents_of_tokens, st.integers(1, 400))
def test_spilling_changes_nothing(first, second, memory) -> None:
    _, pairs = by_counter(first + second)
    counter = PairCounter(VOCAB, memory=memory, buffer=3)
    counter.add(*as_arrays(first))
    early = list(counter.blocks())
    assert {k: v for block in early for k, v in pairs_of(*block).items()} == by_counter(first)[1]
    counter.add(*as_arrays(second))
    blocks = [block for block in counter.blocks() if len(block[0])]
    assert sum(len(keys) for keys, _ in blocks) == len(pairs)
    assert {k: v for block in blocks for k, v in pairs_of(*block).items()} == dict(pairs)


def test_spill_files_are_used_and_removed(tmp_path) -> None:
    documents = zipf_documents(0, 80, 50)
    counter = PairCounter(50, memory=2000, folder=tmp_path, buffer=64)
    counter.add(*as_arrays(documents))
    blocks = list(counter.blocks())
    assert len(list(tmp_path.rglob("*.run"))) > 2
    assert len(blocks) > 2
    merged = {k: v for block in blocks for k, v in pairs_of(*block, 50).items()}
    assert merged == dict(by_counter([d.tolist() for d in documents])[1])
    del counter
    assert not list(tmp_path.rglob("*.run"))


def test_keys_of_a_large_vocabulary_do_not_overflow() -> None:
    vocab = 100_003
    tokens = np.array([vocab - 1, vocab - 1, 0, vocab - 1, vocab - 1], dtype=np.int32)
    counts = Counts.from_stream(tokens, vocab)
    assert counts.count(vocab - 1, vocab - 1) == 2
    assert counts.count(vocab - 1, 0) == counts.count(0, vocab - 1) == 1
    assert counts.pairs == 4
    # The largest vocabulary whose keys are 32-bit.
    edge = Counts.from_stream(np.array([65_535, 65_535]), 65_536)
    assert edge.count(65_535, 65_535) == 1


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64, np.uint32])
def test_dtypes_give_the_same(dtype) -> None:
    documents = zipf_documents(1, 50, 40)
    tokens, lengths = as_arrays(documents, dtype)
    counter = PairCounter(40)
    counter.add(tokens, lengths)
    expected = by_counter([d.tolist() for d in documents])
    assert pairs_of(*next(counter.blocks()), 40) == dict(expected[1])
    assert {t: int(c) for t, c in enumerate(counter.unigrams) if c} == dict(expected[0])


run_lists = st.lists(st.lists(st.integers(0, 30), max_size=20), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(run_lists, st.integers(1, 500))
def test_runs_merge_in_memory_and_on_disk(tmp_path_factory, lists, memory) -> None:
    total = Counter(key for keys in lists for key in keys)
    runs = [run_of(np.array(keys, dtype=np.uint64)) for keys in lists]
    keys, counts = merge_all(runs)
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == dict(total)
    folder = tmp_path_factory.mktemp("runs")
    paths = [write_run(folder / f"{i}.run", [run]) for i, run in enumerate(runs)]
    blocks = list(merged_blocks(paths, memory))
    found = [pair for k, c in blocks for pair in zip(k.tolist(), c.tolist(), strict=True)]
    assert found == sorted(total.items())


def test_run_files_round_trip_and_report_truncation(tmp_path) -> None:
    run = (np.array([2, 2**63], dtype=np.uint64), np.array([2**40, 1]))
    path = write_run(tmp_path / "a.run", [run, (run[0][:0], run[1][:0])])
    assert run_length(path) == 2
    assert np.array_equal(read_run(path)[0], run[0])
    assert np.array_equal(read_run(path, 1, 1)[1], [1])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorpusError, match="cut short"):
        run_length(path)


def test_merging_two_runs_adds_counts_beyond_32_bits() -> None:
    a = (np.array([5], dtype=np.uint32), np.array([2**40]))
    keys, counts = merge_two(a, a)
    assert keys.tolist() == [5]
    assert counts.tolist() == [2**41]


def test_rows_columns_and_pairs_agree_with_the_counter() -> None:
    documents = [d.tolist() for d in zipf_documents(2, 60, 30)]
    counts = Counts.from_documents([np.array(d, dtype=np.int32) for d in documents], 30)
    unigrams, pairs = by_counter(documents)
    assert counts.tokens == sum(unigrams.values())
    assert counts.pairs == sum(pairs.values())
    for token in range(30):
        found = dict(zip(*map(np.ndarray.tolist, counts.predecessors(token)), strict=True))
        assert found == {a: n for (a, b), n in pairs.items() if b == token}
        found = dict(zip(*map(np.ndarray.tolist, counts.successors(token)), strict=True))
        assert found == {b: n for (a, b), n in pairs.items() if a == token}
        for following in range(30):
            assert counts.count(token, following) == pairs[token, following]


def test_a_row_is_a_view_and_not_a_search() -> None:
    counts = Counts.from_stream(np.arange(100) % 13, 13)
    assert np.shares_memory(counts.successors(4)[1], counts.bigrams.data)
    assert np.shares_memory(counts.predecessors(4)[1], counts.by_next.data)


def test_a_stream_equals_framed_documents_but_for_its_first_pair() -> None:
    end = 39
    documents = [d for d in zipf_documents(3, 30, 39) if len(d)]
    stream = np.concatenate([[*d, end] for d in documents]).astype(np.int32)
    framed = Counts.from_documents(documents, 40, Boundary(start=end, end=end))
    streamed = Counts.from_stream(stream, 40)
    assert np.array_equal(framed.unigrams, streamed.unigrams)
    difference = (framed.bigrams - streamed.bigrams).tocoo()
    difference.eliminate_zeros()
    assert (difference.nnz, difference.data.tolist()) == (1, [1])
    assert (difference.row[0], difference.col[0]) == (end, documents[0][0])
    expected = np.zeros((40, 40), dtype=np.int64)
    np.add.at(expected, (stream[:-1], stream[1:]), 1)
    assert np.array_equal(streamed.bigrams.toarray(), expected)


def test_save_and_load(tmp_path) -> None:
    counts = Counts.from_stream(np.arange(50) % 7, 9, {"boundary": "one stream"})
    counts.save(tmp_path / "small")
    for name in ("small", "small.npz"):
        read = Counts.load(tmp_path / name)
        assert np.array_equal(read.unigrams, counts.unigrams)
        assert (read.bigrams != counts.bigrams).nnz == 0
        assert read.bigrams.data.dtype == np.int64
        assert read.record["boundary"] == "one stream"
    with np.load(tmp_path / "small.npz") as file:
        dtypes = {key: str(file[key].dtype) for key in file.files}
    assert dtypes == dict.fromkeys(dtypes, "int64") | {"indices": "int32"}
    assert set(dtypes) == {"unigrams", "indptr", "indices", "data"}
    (tmp_path / "small.json").unlink()
    assert Counts.load(tmp_path / "small").record == {}


def _saved(folder: Path, **changes) -> Path:
    arrays = {
        "unigrams": np.array([1, 2], dtype=np.int64),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([1, 0], dtype=np.int32),
        "data": np.array([3, 4]),
    }
    arrays.update(changes)
    np.savez(folder / "x.npz", **{k: v for k, v in arrays.items() if v is not None})
    return folder / "x.npz"


def test_refusals(tmp_path) -> None:
    counts = Counts.from_stream(np.array([0, 1, 2]), 3)
    for token in (-1, 3):
        with pytest.raises(TokenError, match=f"token {token} is not in the vocabulary of 3"):
            counts.predecessors(token)
    with pytest.raises(TokenError, match="ids from 0 to 3 do not fit a vocabulary of 3"):
        Counts.from_stream(np.array([0, 3]), 3)
    with pytest.raises(TokenError, match="ids from -1"):
        Counts.from_stream(np.array([0, -1]), 3)
    with pytest.raises(TokenError, match="do not add up"):
        PairCounter(3).add(np.array([0, 1]), np.array([1]))
    with pytest.raises(TokenError, match="start token 3"):
        PairCounter(3, Boundary(start=3))
    with pytest.raises(TokenError, match="vocabulary of 0"):
        PairCounter(0)
    with pytest.raises(CorpusError, match="do not fit"):
        Counts(counts.unigrams[:2], counts.bigrams)
    with pytest.raises(CorpusError, match="int64"):
        Counts(counts.unigrams.astype(float), counts.bigrams)
    with pytest.raises(CorpusError, match="negative"):
        Counts(-counts.unigrams, counts.bigrams)
    with pytest.raises(ResultError, match="does not exist"):
        Counts.load(tmp_path / "none")
    with pytest.raises(ResultError, match="data absent"):
        Counts.load(_saved(tmp_path, data=None))
    with pytest.raises(ResultError, match="broken matrix"):
        Counts.load(_saved(tmp_path, indices=np.array([1, 7], dtype=np.int32)))
    (tmp_path / "x.npz").write_bytes(b"PK not a zip")
    with pytest.raises(ResultError, match="cannot be read"):
        Counts.load(tmp_path / "x.npz")


def test_arrays_that_do_not_match_their_record_are_refused(tmp_path) -> None:
    path = Counts.from_stream(np.arange(5), 5).save(tmp_path / "c.npz")
    record = read_json(path.with_suffix(".json"))
    write_json(path.with_suffix(".json"), {**record, "arrays_sha256": "0" * 64})
    with pytest.raises(ResultError, match="checksum"):
        Counts.load(path)


def test_nothing_at_all_is_counted_as_nothing() -> None:
    counts = Counts.from_documents([], 4)
    assert (counts.tokens, counts.pairs) == (0, 0)
    assert counts.predecessors(2)[0].size == 0
    assert Counts.from_documents([np.array([], dtype=np.int32), np.array([2])], 4).pairs == 0


def test_pairs_at_a_distance_are_not_bigrams() -> None:
    documents = [np.array([0, 1, 2, 3, 0]), np.array([4]), np.array([5, 6])]
    skipped = Counts.from_documents(documents, VOCAB, skip=3)
    assert pairs_of_matrix(skipped) == {(0, 3): 1, (1, 0): 1}
    assert skipped.record == {"skip": 3}
    with pytest.raises(TokenError, match="1 or more apart"):
        Counts.from_documents(documents, VOCAB, skip=0)


def pairs_of_matrix(counts: Counts) -> dict:
    matrix = counts.bigrams.tocoo()
    return dict(
        zip(
            zip(*map(np.ndarray.tolist, matrix.coords), strict=True),
            matrix.data.tolist(),
            strict=True,
        )
    )
