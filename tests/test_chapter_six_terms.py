"""One pair of tokens taken apart (`lnattn_book.chapters.six_terms`), against plain formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_layer

from lnattn import Embeddings, FirstLayer, fold, load_first_layer, six_terms
from lnattn.attention.terms import TERMS
from lnattn.errors import TokenError
from lnattn.models.reference import load_reference_model
from lnattn_book.chapters import six_terms as chapter


@pytest.fixture(params=[True, False], ids=["causal", "both sides"])
def terms(request):
    generator = torch.Generator().manual_seed(3)
    W_E, W_P = torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)
    layer = random_layer(5, 12, 3, 4, causal=request.param)
    return six_terms(fold(layer), Embeddings(W_E, W_P), [4, 8, 1, 1, 0])


def test_lifts_add_up_to_the_score_above_its_row(terms):
    """By hand: the whole score over √d′, less its mean over the keys that query 3 may see."""
    row = terms.scores()[1, 3].numpy() / 2.0  # d_head is 4
    keys = range(4) if terms.folded.causal else range(5)
    expected = row[2] - np.mean([row[j] for j in keys])
    lifts = chapter.lifts(terms, head=1, query=3, key=2)
    assert list(lifts) == list(TERMS)
    assert sum(lifts.values()) == pytest.approx(expected, abs=1e-12)


def test_spread_is_the_deviation_over_the_keys_that_are_seen(terms):
    causal = terms.folded.causal
    sizes = chapter.spread(terms)
    for number, name in enumerate(TERMS):
        rows = terms[name][2].numpy() / 2.0
        each = [row[: i + 1] if causal else row for i, row in enumerate(rows)]
        expected = np.mean([np.std(row) for row in (each[1:] if causal else each)])
        assert sizes[number, 2] == pytest.approx(expected, abs=1e-12)


class Tokenizer:
    """Numbers as words."""

    def __call__(self, text, **_settings):
        return {"input_ids": [int(word) for word in text.split()]}

    def decode(self, ids):
        return f" w{ids[0]}"


def first_layer(attention, embeddings):
    return FirstLayer(embeddings, attention, Tokenizer(), {"name": "tiny"})


def test_a_sentence_is_cut_to_the_context_and_must_have_tokens():
    W_E, W_P = torch.randn(9, 12).double(), torch.randn(3, 12).double()
    model = first_layer(random_layer(5, 12, 3, 4), Embeddings(W_E, W_P))
    found = chapter.of_sentence(model, "1 2 3 4")
    assert found.words == ["_w1", "_w2", "_w3"]
    assert tuple(found.terms.ee.shape) == (3, 3, 3)
    with pytest.raises(TokenError, match="tiny"):
        chapter.of_sentence(model, "")
    with pytest.raises(TokenError, match="one token"):
        chapter.spread(chapter.of_sentence(model, "1").terms)


def test_a_pair_that_is_not_there_is_said_and_replaced(capsys):
    words = ["[CLS]", "New", "_york"]
    assert chapter.find_pair(words, "York", "new") == (2, 1)
    assert not capsys.readouterr().out
    assert chapter.find_pair(words, "boston", "new") == (2, 1)
    assert "'boston' and 'new' are not both tokens here" in capsys.readouterr().out
    assert chapter.find_pair(["one"], "boston", "new") == (0, 0)


def test_the_error_is_rounding_and_sees_a_wrong_weight(gpt2):
    ids = torch.tensor([3, 7, 7, 1])
    model = first_layer(attention_layer(gpt2), embeddings_of(gpt2))
    gpt2.set_attn_implementation("eager")
    assert chapter.error(model, gpt2.transformer, ids, torch.float64) < 1e-12
    wrong = first_layer(replace(attention_layer(gpt2, 1), index=0), model.embeddings)
    assert chapter.error(wrong, gpt2.transformer, ids, torch.float64) > 1e-3


def test_the_rows_of_a_bert_are_added_in_double_precision():
    """Where one row is added in single precision, attention is off by as much as it rounds."""
    minilm = load_first_layer("minilm")
    reference = load_reference_model("minilm")
    exact = chapter.rows_added_in_double(minilm, reference)
    ids = torch.tensor([101, 2047, 2259, 102])
    assert chapter.error(exact, reference, ids, torch.float64) < 1e-13
    assert chapter.error(minilm, reference, ids, torch.float64) > 1e-10
