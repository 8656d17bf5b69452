"""`verify`: what is run, what is compared, and what is said where nothing can be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from families import VOCAB, config_of, make, save, save_tokenizer
from random_models import random_gpt2
from transformers.utils import logging

from lnattn import first_layer, verify
from lnattn.errors import CheckpointError, TokenError
from lnattn.models import verification
from lnattn.models.modules import family_of_module


def test_differences_by_hand():
    """Attention: the largest one. Output: relative to its largest value, so a fifth of 5 is 1."""
    attention = torch.tensor([[[0.50, 0.50], [0.25, 0.75]]])
    output = torch.tensor([[1.0, -5.0], [2.0, 3.0]])
    theirs = attention, output
    ours = attention + torch.tensor([0.0, 0.125]), output - torch.tensor([[0.0, 0.0], [1.0, 0.5]])
    assert verification._differences(theirs, ours) == {"attention": 0.125, "output": 0.2}
    assert verification._differences(theirs, (attention, None)) == {"attention": 0, "output": None}
    assert verification._differences((attention, None), ours)["output"] is None


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_the_model_itself_is_run_in_its_own_type(kind):
    """And not a copy of its first layer, which would say nothing about the model in use."""
    model = make("gpt2", torch.float32)
    model.set_attn_implementation(kind)
    types = []
    last = model.transformer.h[-1]
    last.register_forward_hook(lambda _module, given, _out: types.append(given[0].dtype))
    verify(model)
    assert types == [torch.float32]


@pytest.mark.parametrize("reported", [None, (), (None, "later")])
def test_a_model_that_reports_no_attention_is_refused(reported, monkeypatch):
    model = make("gpt2", torch.float32)
    silent = SimpleNamespace(attentions=reported)
    monkeypatch.setattr(verification, "part_of", lambda *_: lambda **_: silent)
    with pytest.raises(CheckpointError, match="attention weights"):
        verification._run(model, family_of_module(model), input_ids=torch.tensor([[7, 5]]))


def words(ids):
    """A tokenizer that gives these ids, and adds a 0 where special tokens are asked for."""

    def tokenize(_text, add_special_tokens=True):
        return {"input_ids": [*ids, *([0] if add_special_tokens else [])]}

    return tokenize


@pytest.mark.parametrize("by_name", [False, True])
def test_real_tokens_are_compared_without_special_ones(by_name, monkeypatch, tmp_path):
    model = make("gpt2", torch.float32)
    given = save(model, tmp_path) if by_name else model
    texts = []
    true = verification._texts
    monkeypatch.setattr(
        verification, "_texts", lambda *args: texts.append(true(*args)) or texts[-1]
    )
    table = verify(given, words([VOCAB - 1, 7, 7]))
    assert list(dict.fromkeys(table.tokens)) == ["random", "real"]
    assert (table.attention < 1e-4).all()
    real = texts[0]["real"].tolist()
    assert len(real) == 3
    assert real[1] == real[2] != real[0]
    assert by_name or real == [VOCAB - 1, 7, 7]


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("ids", [[VOCAB], [3, VOCAB + 7]])
def test_a_tokenizer_of_another_model_is_refused(by_name, ids, tmp_path):
    model = make("gpt2", torch.float32)
    given = save(model, tmp_path) if by_name else model
    with pytest.raises(TokenError, match="embeddings"):
        verify(given, words(ids))


def test_a_folders_tokenizer_of_another_model_is_refused(tmp_path):
    save(make("gpt2", torch.float32), tmp_path)
    save_tokenizer(tmp_path, VOCAB + 1)
    with pytest.raises(CheckpointError, match=f"the id {VOCAB}, but"):
        verify(tmp_path)


def test_a_tokenizer_without_words_for_the_text(tmp_path):
    model = make("gpt2", torch.float32)
    assert set(verify(save(model, tmp_path), words([])).tokens) == {"random"}
    with pytest.raises(TokenError, match="no embeddings"):
        verify(model, words([]))


@pytest.mark.parametrize("size", [3, 4, 50])
def test_random_tokens_are_of_the_vocabulary(size):
    first = first_layer(random_gpt2(3, vocab=size, context=20))
    (ids,) = verification._texts(first, None, 0).values()
    assert len(ids) == 20
    assert 1 <= ids.min() < ids.max() < size


def test_two_tokens_are_too_few():
    with pytest.raises(TokenError, match="fewer than 3 tokens"):
        verify(random_gpt2(3, vocab=2))


def test_a_padding_token_at_the_end_of_the_vocabulary():
    """The copy of one layer has a row for it, though it is given no tokens."""
    config = config_of("llama-default")
    config.pad_token_id = VOCAB - 1
    assert (verify(make(config, torch.float32)).attention < 1e-4).all()


@pytest.mark.parametrize("bars", [True, False])
def test_bars_are_shown_afterwards_as_before(bars, tmp_path):
    folder = save(make("gpt2", torch.float32), tmp_path)
    (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
    try:
        verify(folder)
        assert logging.is_progress_bar_enabled() is bars
    finally:
        logging.enable_progress_bar()
