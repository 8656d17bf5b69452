"""Windows of the sample's text, for models whose context is longer than its documents."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import lnattn
from lnattn.book import samples
from lnattn.errors import TokenError


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

    def test_a_model_without_tokenizer_is_one_sentence(self):
        with pytest.raises(TokenError, match="no tokenizer"):
            samples.sample_windows(SimpleNamespace(name="m", tokenizer=None), 4)


def test_the_embedded_models_windows_are_of_single_articles():
    first = lnattn.load_first_layer("book-gpt2")
    cut, words = samples.sample_windows(first, 501)
    assert words == "each a part of one article"
    assert cut.shape[1] == 501
    assert len(np.unique(cut[:, 0])) > 1
