"""Mutated counts and corpora: what is read is right, the rest is refused in one sentence.

Small and seeded; LNATTN_FUZZ multiplies the number of cases, for a long run now and then.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.errors import LnattnError
from lnattn.storage import read_json, write_json
from lnattn.text.corpora import Corpus, read_documents
from lnattn.text.counts import Boundary, Counts

TIMES = int(os.environ.get("LNATTN_FUZZ", "1"))
#: Longest sentence of a refusal, its path aside.
LONGEST = 700


def refusal(read: Callable[[], object], place: Path) -> str | None:
    """The sentence that refuses an input, checked; None where it was read."""
    try:
        read()
    except LnattnError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert len(sentence.replace(str(place), "")) < LONGEST
        return sentence
    return None


def changed_bytes(whole: bytes, generator: random.Random) -> bytes:
    """Some bytes changed, a piece left out, doubled or put in, or the end cut off."""
    changed = bytearray(whole)
    kind = generator.choice(("bytes", "bytes", "cut", "gap", "double", "insert"))
    start = generator.randrange(len(changed))
    stop = min(len(changed), start + generator.randint(1, 40))
    if kind == "bytes":
        for place in generator.sample(range(len(changed)), min(3, len(changed))):
            changed[place] = generator.randrange(256)
    elif kind == "cut":
        del changed[start:]
    elif kind == "gap":
        del changed[start:stop]
    elif kind == "double":
        changed[start:start] = changed[start:stop]
    else:
        changed[start:start] = generator.choice(INSERTED)
    return bytes(changed)


#: Pieces that readers of text stumble over: marks of encodings, zeros, deep nesting, odd numbers.
INSERTED = [
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xed\xa0\x80", b"\x00", b"\x1a"),
    *(b"\r", b"\r\n\r\n", b'"', b"\\", b'"\\ud800"', b"null", b"NaN", b"1e999"),
    *(b"[" * 2_000, b'{"a":' * 500, b"1" * 5_000),
]


# ---- Counts --------------------------------------------------------------------------------------

DOCUMENTS = [[1, 2, 2, 0, 1], [3], [], [2, 1, 0, 0, 4, 4, 4]]
#: Arrays that a damaged or foreign file may hold.
ARRAYS = [
    np.array([], dtype=np.int64),
    np.array([1, 2], dtype=np.uint8),
    np.array([-1, 3, 300], dtype=np.int64),
    np.array([2**63, 1], dtype=np.uint64),
    np.array([2**62, 2**62, 2**62], dtype=np.int64),
    np.array([255] * 9, dtype=np.uint8),
    np.zeros((2, 2), dtype=np.int64),
    np.array(5),
    np.array([1.5, 2.0]),
    np.array([np.nan, np.inf]),
    np.array([1 + 2j]),
    np.array([True, False]),
    np.array(["a", "b"]),
    np.array(["2020-01-01"], dtype="M8[D]"),
]


@pytest.fixture
def stored(tmp_path) -> Path:
    path = Counts.from_documents(DOCUMENTS, 5, Boundary(4, 4)).save(tmp_path / "counts.npz")
    assert Counts.load(path).tokens == 17
    return path


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_counts_whose_bytes_changed_are_the_same_or_refused(suffix, stored):
    generator = random.Random(f"counts {suffix}")
    sha256 = Counts.load(stored).sha256
    file = stored.with_suffix(suffix)
    whole = file.read_bytes()
    refused = 0
    for _ in range(150 * TIMES):
        file.write_bytes(changed_bytes(whole, generator))
        read = None

        def load() -> None:
            nonlocal read
            read = Counts.load(stored)

        refused += refusal(load, stored.parent) is not None
        # A record beside it, whole or not, vouches for the arrays.
        assert read is None or read.sha256 == sha256
    assert refused > 50 * TIMES


def test_counts_without_a_record_whose_arrays_changed_are_counts_or_refused(stored):
    generator = random.Random("arrays")
    stored.with_suffix(".json").unlink()
    with np.load(stored) as file:
        arrays = dict(file)
    read = refused = 0
    for _ in range(200 * TIMES):
        mutant = dict(arrays)
        for name in generator.sample(sorted(arrays), generator.choice((1, 1, 2))):
            if generator.random() < 0.1:
                del mutant[name]
            elif generator.random() < 0.4:
                mutant[name] = generator.choice(ARRAYS)
            else:
                mutant[name] = with_one_number_changed(arrays[name], generator)
        np.savez(stored, **mutant)
        if refusal(lambda: Counts.load(stored), stored.parent) is not None:
            refused += 1
            continue
        counts = Counts.load(stored)
        read += 1
        assert all(array.dtype.kind in "iu" for array in mutant.values()), mutant
        assert counts.unigrams.min(initial=0) >= 0
        assert counts.bigrams.data.min(initial=0) >= 0
        assert counts.bigrams.shape == (counts.vocab_size, counts.vocab_size)
        assert counts.bigrams.has_canonical_format
        for token in range(counts.vocab_size):
            previous, times = counts.predecessors(token)
            assert len(previous) == len(times)
    assert read > 10 * TIMES
    assert refused > 50 * TIMES


def with_one_number_changed(array: np.ndarray, generator: random.Random) -> np.ndarray:
    if not array.size:
        return array
    changed = array.astype(np.int64)
    changed[generator.randrange(len(changed))] = generator.choice(
        (0, 1, 3, 254, 255, 256, 2**40, -1)
    )
    return changed


@pytest.mark.parametrize("value", [None, [], 5, "x", {"a": 1}, 1e999])
@pytest.mark.parametrize("name", ["arrays_sha256", "schema", "documents", "skip"])
def test_counts_with_another_record_are_the_same_or_refused(name, value, stored):
    sha256 = Counts.load(stored).sha256
    record = stored.with_suffix(".json")
    record.write_text(json.dumps({**read_json(record), name: value}))
    if refusal(lambda: Counts.load(stored), stored.parent) is None:
        assert Counts.load(stored).sha256 == sha256


@settings(max_examples=100 * TIMES, deadline=None)
@given(
    st.lists(st.lists(st.integers(-2, 9)), max_size=4),
    st.integers(-1, 9),
    st.integers(-1, 3),
    st.none() | st.integers(-1, 9),
)
def test_any_documents_are_counted_or_refused(documents, vocab, skip, end):
    inside = all(0 <= token < vocab for one in documents for token in one)
    is_sound = vocab >= 1 and skip >= 1 and (end is None or 0 <= end < vocab) and inside
    made = refusal(lambda: Counts.from_documents(documents, vocab, Boundary(end), skip), Path("-"))
    assert (made is None) == is_sound
    if is_sound:
        counts = Counts.from_documents(documents, vocab, Boundary(end), skip)
        ends = [] if end is None else [end]
        assert counts.tokens == sum(len([*one, *ends]) for one in documents)
        assert counts.pairs == sum(max(0, len([*one, *ends]) - skip) for one in documents)


# ---- Corpora -------------------------------------------------------------------------------------

TEXTS = ["One, two.", "three\nfour", "Zürich 東京 🙂", "  ", "the end"]


def table_of(texts: list[str]) -> bytes:
    place = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": range(len(texts))}), place)
    return place.getvalue()


LINES = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in TEXTS).encode()
#: A corpus of each kind, whole.
FILES = {
    "a.jsonl": LINES,
    "a.jsonl.gz": gzip.compress(LINES, mtime=0),
    "a.json": json.dumps([{"text": text} for text in TEXTS], ensure_ascii=False).encode(),
    "a.csv": b"text,n\n" + b"".join(f'"{text}",1\n'.encode() for text in TEXTS),
    "a.txt": "\n".join(TEXTS).encode(),
    "a.parquet": table_of(TEXTS),
}


def read_all(path: Path) -> list[str]:
    return list(read_documents(Corpus((str(path),), stream=True)))


@pytest.mark.parametrize("name", FILES)
def test_corpora_whose_bytes_changed_are_texts_or_refused(name, tmp_path):
    generator = random.Random(name)
    path = tmp_path / name
    path.write_bytes(FILES[name])
    whole = read_all(path)
    assert [text.strip() for text in whole if name != "a.txt"] == [
        text.strip() for text in TEXTS if name != "a.txt" and text.strip()
    ]
    read = refused = 0
    for _ in range(40 * TIMES):
        path.write_bytes(changed_bytes(FILES[name], generator))
        texts = []
        if refusal(lambda texts=texts: texts.extend(read_all(path)), tmp_path) is not None:
            refused += 1
            continue
        read += 1
        assert texts
        assert all(isinstance(text, str) and text.strip() for text in texts)
        for text in texts:
            text.encode()  # no lone surrogate: a tokenizer could not take it
    assert read + refused == 40 * TIMES
    assert refused or name in ("a.txt", "a.csv")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "latin-1"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.txt"])
def test_other_encodings_are_read_rightly_or_refused(name, encoding, tmp_path):
    path = tmp_path / name
    text = FILES[name].decode().replace("東京 🙂", "ß")
    path.write_bytes(text.encode(encoding))
    if refusal(lambda: read_all(path), tmp_path) is None:
        assert any("Zürich ß" in text for text in read_all(path))
        assert not any("\ufeff" in text for text in read_all(path))
    else:
        assert encoding != "utf-8-sig"


COLUMNS = {
    "large strings": pyarrow.array(["a", "b"], pyarrow.large_string()),
    "views": pyarrow.array(["a", "b"]).cast(pyarrow.string_view()),
    "a dictionary": pyarrow.array(["a", "b"]).dictionary_encode(),
    "bytes": pyarrow.array([b"a", b"\xff"]),
    "whole numbers": pyarrow.array([1, 2]),
    "numbers": pyarrow.array([1.5, float("nan")]),
    "flags": pyarrow.array([True, False]),
    "dates": pyarrow.array([1, 2], pyarrow.date32()),
    "lists": pyarrow.array([["a"], ["b"]]),
    "records": pyarrow.array([{"a": "b"}, {"a": "c"}]),
    "nothing": pyarrow.nulls(2),
    "gaps": pyarrow.array(["a", None]),
    "decimals": pyarrow.array([1, 2]).cast(pyarrow.decimal128(21, 2)),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_any_type_are_texts_or_refused(kind, tmp_path):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": COLUMNS[kind]}), path)
    is_text = kind in ("large strings", "views", "a dictionary")
    sentence = refusal(lambda: read_all(path), tmp_path)
    if is_text:
        assert sentence is not None or read_all(path) == ["a", "b"]
    else:
        assert sentence is not None


def test_a_record_of_another_kind_beside_the_counts_is_refused(stored):
    write_json(stored.with_suffix(".json"), {"arrays_sha256": {"counts": 1}, "arrays": []})
    assert refusal(lambda: Counts.load(stored), stored.parent) is not None
