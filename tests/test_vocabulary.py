"""Counts are found by the tokens that they count, whatever a model is called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from lnattn import load_first_layer
from lnattn.errors import CorpusError
from lnattn.paths import data_folder
from lnattn.storage import read_json, write_json
from lnattn.text.counting import count_corpus
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import encode_documents
from lnattn.text.vocabulary import counts_by_vocabulary, resized, vocabulary_sha256
from lnattn_book.studies.samples import token_counts


def words(*names: str, added: tuple[str, ...] = ()) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, names[0]))
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in added])
    return tokenizer


def test_what_the_hash_depends_on():
    plain = vocabulary_sha256(words("a", "b", "c"))
    assert vocabulary_sha256(words("a", "b", "c", added=("[PAD]",))) == plain
    assert (
        vocabulary_sha256(PreTrainedTokenizerFast(tokenizer_object=words("a", "b", "c"))) == plain
    )
    assert vocabulary_sha256(words("a", "c", "b")) != plain
    assert vocabulary_sha256(words("a", "b")) != plain
    with pytest.raises(CorpusError, match="fast tokenizer"):
        vocabulary_sha256("a tokenizer")


def test_documents_begin_with_the_models_token_once_and_are_cut():
    bare = PreTrainedTokenizerFast(tokenizer_object=words("a", "b"), unk_token="a")
    assert list(encode_documents(["b", ""], bare, 5)) == [[1]]
    begun = PreTrainedTokenizerFast(tokenizer_object=words("a", "b"), unk_token="a", bos_token="a")
    assert list(encode_documents(["b"], begun, 5)) == [[0, 1]]
    assert list(encode_documents(["a"], begun, 5)) == [[0]]
    assert list(encode_documents(["b"], begun, 1)) == [[0]]


def test_the_records_that_ship_say_it():
    records = [*(data_folder() / "counts").glob("*.json"), data_folder() / "book-gpt2/counts.json"]
    hashes = [read_json(record)["tokenizer"]["vocabulary_sha256"] for record in records]
    assert len(set(hashes)) == len(records) == 3
    book = load_first_layer("book-gpt2")
    assert vocabulary_sha256(book.tokenizer) == hashes[-1]


def test_a_model_under_another_name_gets_the_counts_of_its_tokens():
    """As a fine-tune of book-gpt2 that added a token, in a table filled up to a round number."""
    book = load_first_layer("book-gpt2")
    expected, said = token_counts(book)
    assert said == "its own training text"
    tokenizer = load_first_layer("book-gpt2").tokenizer
    tokenizer.add_special_tokens({"pad_token": "[a token of its own]"})
    rows = torch.zeros(64, book.embeddings.d_model)
    tuned = replace(
        book,
        embeddings=replace(book.embeddings, W_E=torch.cat((book.embeddings.W_E, rows))),
        provenance={"name": "someone/fine-tune"},
        tokenizer=tokenizer,
    )
    counts, said = token_counts(tuned)
    assert "book-gpt2" in said
    assert counts.vocab_size == book.embeddings.vocab_size + 64
    assert np.array_equal(counts.unigrams[: expected.vocab_size], expected.unigrams)
    assert (counts.pairs, counts.tokens) == (expected.pairs, expected.tokens)


def test_a_name_alone_finds_nothing():
    book = load_first_layer("book-gpt2")
    stranger = replace(
        book,
        provenance={"name": "gpt2"},
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=words("a", "b"), unk_token="a"),
    )
    _, said = token_counts(stranger)
    assert said.startswith("only the")


def test_a_count_can_be_found_again(tmp_path):
    tokenizer = words("a", "b", "c")
    (tmp_path / "t.txt").write_text("a")
    count_corpus([tmp_path / "t.txt"], tokenizer, tmp_path / "c.npz", workers=1, progress=False)
    other = write_json(tmp_path / "other.json", {"tokenizer": {"name": "x"}})
    records = [tmp_path / "absent.json", other, tmp_path / "c.json"]
    found = counts_by_vocabulary(tokenizer, 3, records)
    assert found is not None
    assert found[0].unigrams.tolist() == [1, 0, 0]
    assert found[1] == tmp_path / "c.npz"
    assert counts_by_vocabulary(words("a", "c", "b"), 3, records) is None


@settings(deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=1, max_size=4),
    rows=st.integers(1, 12),
)
def test_counts_for_another_number_of_rows(documents, rows):
    highest = max(map(max, documents))
    fitted = resized(Counts.from_documents(documents, 6), rows)
    assert (fitted is None) == (rows <= highest)
    if fitted is not None:
        expected = Counts.from_documents(documents, rows)
        assert np.array_equal(fitted.unigrams, expected.unigrams)
        assert np.array_equal(fitted.bigrams.toarray(), expected.bigrams.toarray())
        assert fitted.sha256 == expected.sha256
