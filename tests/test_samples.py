"""The text and counts that ship with the book: what they are, and how text is cut."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

import lnattn
from lnattn.storage import sha256_of_file
from lnattn_book import samples


def model(end: int | None) -> SimpleNamespace:
    return SimpleNamespace(name="m", tokenizer=SimpleNamespace(eos_token_id=end))


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
