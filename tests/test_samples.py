"""The text and counts that ship with the book: what they are, and how text is cut."""

from __future__ import annotations

import dataclasses
import itertools
import json
from types import SimpleNamespace

import pytest

import lnattn
from lnattn.errors import TokenError
from lnattn.storage import sha256_of_file
from lnattn_book import samples


def model(end: int | None) -> SimpleNamespace:
    return SimpleNamespace(name="m", tokenizer=SimpleNamespace(eos_token_id=end))


@pytest.fixture
def documents(monkeypatch):
    """Twelve documents of five tokens, all different."""
    found = [list(range(5 * n, 5 * n + 5)) for n in range(12)]
    monkeypatch.setattr(samples, "sample_tokens", lambda model: found)
    return found


@pytest.mark.usefixtures("shapes_unchecked")
class TestWindows:
    def test_long_enough_documents_are_cut_one_by_one(self, documents):
        cut, words = samples.sample_windows(model(99), 5)
        assert cut.tolist() == documents
        assert words == "each a part of one article"
        cut, _ = samples.sample_windows(model(99), 6, first=7)
        assert cut.tolist() == [[7, *ids] for ids in documents]

    @pytest.mark.parametrize("end", [99, None])
    def test_short_documents_are_joined_and_the_words_say_so(self, documents, end):
        cut, words = samples.sample_windows(model(end), 6)
        between = [] if end is None else [end]
        stream = list(itertools.chain.from_iterable([*ids, *between] for ids in documents))
        assert cut.ravel().tolist() == stream[: cut.size]
        assert len(stream) - cut.size < 6
        assert "too few have 6 tokens" in words
        assert ("end-of-text token after each" in words) == (end is not None)


@pytest.fixture(scope="module")
def book_model():
    return lnattn.load_first_layer("book-gpt2")


def test_sample_is_the_one_that_its_record_describes():
    path = samples.sample_file()
    record = json.loads(path.with_suffix(".json").read_text())
    assert record["sha256"] == sha256_of_file(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) == record["documents"]


def test_counts_are_those_of_the_model_or_say_that_they_are_not(book_model):
    counts, words = samples.token_counts(book_model)
    assert counts.vocab_size == book_model.embeddings.vocab_size
    assert words == "its own training text"
    other = dataclasses.replace(book_model, provenance={"name": "somebody/unheard-of"})
    counted, words = samples.token_counts(other)
    assert "only the 60 sample documents" in words
    assert counted.tokens == sum(map(len, samples.sample_tokens(other)))


def test_model_without_tokenizer_is_refused(book_model):
    with pytest.raises(TokenError, match="no tokenizer"):
        samples.sample_tokens(dataclasses.replace(book_model, tokenizer=None))
