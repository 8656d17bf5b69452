"""Classifiers of sentiment: arms, keys, training, the words that decide, and what is frozen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from experiments.sentiment import run as sentiment
from experiments.sentiment.classifier import (
    ARMS,
    ClassifierPlan,
    Treebank,
    Vocabulary,
    is_right,
    keys_of_sentences,
    new_classifier,
    train_classifier,
    unselectable_words,
)
from experiments.sentiment.run import freeze_sentiment
from lnattn.errors import CheckpointError, ResultError
from lnattn.paths import data_folder
from lnattn.selectability.decide import selectability
from lnattn.storage import sha256_of_file
from lnattn_book.studies.unselectable_words import Sentiment

TINY = ClassifierPlan(
    learning_rate=2e-2, d_model=4, heads=2, layers=2, epochs=20, batch=16, dropout=0.0
)
FROZEN = data_folder() / "results" / "selectability"


def toy(count: int, seed: int = 0) -> Treebank:
    """Sentences of words without meaning, and one that decides."""
    rng = np.random.default_rng(seed)
    positive = rng.random(count) < 0.5
    sentences = []
    for label in positive:
        words = [f"w{i}" for i in rng.integers(12, size=rng.integers(8, 20))]
        words[rng.integers(len(words))] = "good" if label else "bad"
        sentences.append(tuple(words))
    return Treebank(tuple(sentences), positive)


@pytest.fixture(scope="module", params=ARMS)
def trained(request) -> tuple:
    given = toy(160)
    vocabulary = Vocabulary(given.sentences)
    return request.param, vocabulary, train_classifier(given, vocabulary, request.param, TINY, 3)


def test_arms_differ_in_their_layer_norms_alone():
    models = {}
    for arm in ARMS:
        torch.manual_seed(5)
        models[arm] = new_classifier(TINY, arm, vocabulary=20, positions=32)
    norms = {
        arm: sum(isinstance(module, nn.LayerNorm) for module in model.modules())
        for arm, model in models.items()
    }
    assert norms == {"full": 1 + 2 * TINY.layers, "no-scaling": 0, "none": 0}
    full = dict(models["full"].named_parameters())
    for arm in ("no-scaling", "none"):
        parameters = dict(models[arm].named_parameters())
        assert set(full) - set(parameters) == {name for name in full if "LayerNorm" in name}
        assert all(torch.equal(full[name], value) for name, value in parameters.items())
    with pytest.raises(CheckpointError, match="'half'"):
        new_classifier(TINY, "half", 20, 32)


def test_keys_are_what_attention_reads(trained):
    arm, vocabulary, model = trained
    several = [*map(vocabulary.ids, toy(3, seed=9).sentences)]
    assert len({*map(len, several)}) > 1
    ids = several[1]
    read = []
    hooks = [
        layer.attention.self.key.register_forward_hook(lambda _, given, __: read.append(given[0]))
        for layer in model.bert.encoder.layer
    ]
    with torch.inference_mode():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    layers = [*keys_of_sentences(model, several)][1]
    # What is padded to a batch changes nothing but the rounding.
    np.testing.assert_allclose(layers, torch.cat(read).numpy(), atol=1e-5)
    assert layers.shape == (TINY.layers, len(ids), TINY.d_model)
    if arm == "no-scaling":
        np.testing.assert_allclose(layers.mean(axis=-1), 0, atol=1e-5)


def test_words_are_decided_among_all_keys_of_their_sentence(trained):
    arm, vocabulary, model = trained
    sentences = toy(12, seed=8).sentences
    marks = unselectable_words(model, vocabulary, sentences)
    assert marks.shape == (TINY.layers, sum(map(len, sentences)))
    assert model.dtype == torch.float32
    start = 0
    for words in sentences:
        (keys,) = keys_of_sentences(model.double(), [vocabulary.ids(words)])
        for layer in range(TINY.layers):
            expected = ~selectability(keys[layer]).selectable[1:-1]
            np.testing.assert_array_equal(marks[layer, start : start + len(words)], expected)
        start += len(words)
    model.float()
    # With the scaling all keys lie on an ellipsoid; without, some lie inside.
    assert marks.any() == (arm != "full")


def test_training_learns_and_is_repeated_by_its_seed(trained):
    arm, vocabulary, model = trained
    asked = toy(60, seed=1)
    short = replace(TINY, epochs=2)
    assert is_right(model, vocabulary, asked).mean() > 0.9
    torch.manual_seed(0)
    before = torch.get_rng_state()
    once = train_classifier(toy(160), vocabulary, arm, short, 3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    again = train_classifier(toy(160), vocabulary, arm, short, 3).state_dict()
    assert all(torch.equal(again[name], value) for name, value in once.items())


# --- freezing -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch) -> tuple[Path, Path]:
    monkeypatch.setattr(sentiment, "TABLE_4", {"w1 is": ("good",)})
    paths = []
    for name, bank in (("train", toy(120)), ("dev", toy(30, seed=1))):
        rows = [f"{' '.join(w)}\t{int(p)}" for w, p in zip(*vars(bank).values(), strict=True)]
        paths.append(tmp_path / f"{name}.tsv")
        paths[-1].write_text("\n".join(["sentence\tlabel", *rows, "w1 is good\t1", ""]))
    return paths[0], paths[1]


def test_a_study_is_made_and_frozen(files, tmp_path, monkeypatch):
    options = {"plan": TINY, "rates": (1e-9, 2e-2), "scales": (0.1,), "seeds": (0, 1)}
    with pytest.raises(ResultError, match="'none'"):
        freeze_sentiment(*files, tmp_path / "idle", **options | {"rates": (1e-9,)}, epochs=(1,))
    monkeypatch.setattr(sentiment, "TRAINED", -1)  # whatever so few epochs give
    options["epochs"] = (1, 2)
    freeze_sentiment(*files, tmp_path / "whole", **options)
    whole = Sentiment.read(tmp_path / "whole", Sentiment.NAME)
    assert not whole.unselectable[whole.of("full")].any()
    (marked,) = whole.marked("none")
    assert marked.words == ("w1", "is", "good")
    assert marked.bold == (False, False, True)
    assert whole.record["sentences"] == {"fitted": 109, "held_back": 12, "dev": 31}
    for arm, best in zip(ARMS, whole.held_back, strict=True):
        search = whole.record["search"][arm]
        assert len(search["pairs"]) == 2
        assert [row[2] for row in search["again"]] == [1, 2, 1, 2]
        chosen = search["again"][search["of_both_seeds"].index(best)]
        names = ("learning_rate", "initial_scale", "epochs")
        assert [search["chosen"][name] for name in names] == chosen
        assert best == max(search["of_both_seeds"])


# --- what is frozen -------------------------------------------------------------------------------


def test_the_frozen_study_is_whole():
    result = Sentiment.read(FROZEN, Sentiment.NAME)
    record = result.record
    assert {"date", "versions", "sha256", "search", "command"} <= set(record)
    assert result.right.shape == (len(ARMS), len(sentiment.SEEDS), record["sentences"]["dev"])
    assert result.held_back.shape == (len(ARMS),)
    for arm, best in zip(ARMS, result.held_back, strict=True):
        search = record["search"][arm]
        assert best == max(search.get("of_both_seeds", search["pairs"]))
        assert search["chosen"]["learning_rate"] in record["rates"]
    assert result.sentence[-1] == record["sentences"]["dev"] - 1
    # By Theorem 1 nothing is unselectable with the scaling; without it some words are.
    assert [marks.any() for marks in result.unselectable] == [False, True, True]
    assert (result.by_layer.max(axis=2) <= result.unselectable.mean(axis=2)).all()
    bold = {word for words in sentiment.TABLE_4.values() for word in words}
    marked = result.marked("none")
    assert {
        w for sentence in marked for w, b in zip(sentence.words, sentence.bold, strict=True) if b
    } == bold


def test_the_frozen_words_are_those_of_the_treebank(corpora_folder):
    train = corpora_folder / "sst2_train.tsv"
    dev = corpora_folder / "sst2_dev.tsv"
    result = Sentiment.read(FROZEN, Sentiment.NAME)
    assert result.record["sha256"] == {"train": sha256_of_file(train), "dev": sha256_of_file(dev)}
    given = Treebank.read(train)
    asked = Treebank.read(dev)
    words = [word for sentence in asked.sentences for word in sentence]
    assert len(words) == len(result.type)
    assert result.majority == max(asked.positive.mean(), 1 - asked.positive.mean())
    for place in range(0, len(words), 97):
        of_type = [words[place] in sentence for sentence in given.sentences]
        if result.type[place] < 0:
            assert not any(of_type)
            continue
        assert result.count[result.type[place]] == sum(of_type)
        assert result.positive[result.type[place]] == (of_type & given.positive).sum()
