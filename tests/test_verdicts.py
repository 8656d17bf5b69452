"""Verdicts over heads, and the text and counts that ship with the book."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from lnattn import load_first_layer
from lnattn.book import samples
from lnattn.claims import verdicts
from lnattn.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART
from lnattn.errors import ResultError, TokenError
from lnattn.storage import sha256_of_file


@pytest.fixture(scope="module")
def book_model():
    return load_first_layer("book-gpt2")


def test_verdict_counts_heads():
    assert verdicts.of_heads([True, True]) == (HOLDS, "2 of 2 heads")
    assert verdicts.of_heads(np.array([True, False, True])) == (HOLDS_IN_PART, "2 of 3 heads")
    assert verdicts.of_heads([False]) == (FAILS, "0 of 1 heads")
    with pytest.raises(ResultError, match="at least one"):
        verdicts.of_heads([])


def test_heads_are_listed_in_words():
    assert verdicts.heads_where([True, False, True, True]) == "0, 2 and 3"
    assert verdicts.heads_where([False, True]) == "1"
    assert verdicts.heads_where([False, False]) == "none"


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
