"""Classifiers of sentiment: arms, keys, training, the words that decide, and what is frozen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lnattn.commands import selectability as command
from lnattn.errors import CheckpointError, CorpusError, ResultError
from lnattn.paths import data_folder
from lnattn.storage import sha256_of_file
from lnattn.studies.selectability import sentiment
from lnattn.studies.selectability.classifier import (
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
from lnattn.studies.selectability.decide import selectability
from lnattn.studies.selectability.exposure import exposure, lead
from lnattn.studies.selectability.sentiment import Sentiment, freeze_sentiment

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


def test_a_treebank_is_two_columns(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('sentence\tlabel\na "fine thing\t1\nit  fails \t0\n')
    read = Treebank.read(path)
    assert read.sentences == (("a", '"fine', "thing"), ("it", "fails"))
    assert read.positive.tolist() == [True, False]
    assert read.part(np.array([1])).sentences == (("it", "fails"),)
    for text, message in (
        ("sentence\nx\n", "no column 'label'"),
        ("sentence\tlabel\nx\t2\n", r"must be 0 or 1; found \['2'\]"),
        ("sentence\tlabel\n", "found none"),
    ):
        path.write_text(text)
        with pytest.raises(CorpusError, match=message):
            Treebank.read(path)


def test_words_seen_once_share_a_token():
    vocabulary = Vocabulary([("a", "b", "a"), ("c", "b", "a")])
    assert vocabulary.tokens == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b")
    assert vocabulary.ids(("b", "c", "z")) == [2, 5, 1, 1, 3]


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
        own = dict(models[arm].named_parameters())
        assert set(full) - set(own) == {name for name in full if "LayerNorm" in name}
        assert all(torch.equal(full[name], value) for name, value in own.items())
    with pytest.raises(CheckpointError, match="there is no arm 'half'"):
        new_classifier(TINY, "half", 20, 32)


def test_keys_are_what_attention_reads(trained):
    arm, vocabulary, model = trained
    several = [*map(vocabulary.ids, toy(3, seed=9).sentences)]
    assert len({*map(len, several)}) > 1
    ids, read = several[1], []
    hooks = [
        layer.attention.self.key.register_forward_hook(lambda _, given, __: read.append(given[0]))
        for layer in model.bert.encoder.layer
    ]
    with torch.inference_mode():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    found = [*keys_of_sentences(model, several)][1]
    # What is padded to a batch changes nothing but the rounding.
    np.testing.assert_allclose(found, torch.cat(read).numpy(), atol=1e-5)
    assert found.shape == (TINY.layers, len(ids), TINY.d_model)
    if arm == "no-scaling":
        np.testing.assert_allclose(found.mean(axis=-1), 0, atol=1e-5)


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
    asked, short = toy(60, seed=1), replace(TINY, epochs=2)
    assert is_right(model, vocabulary, asked).mean() > 0.9
    torch.manual_seed(0)
    before = torch.get_rng_state()
    once = train_classifier(toy(160), vocabulary, arm, short, 3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    again = train_classifier(toy(160), vocabulary, arm, short, 3).state_dict()
    assert all(torch.equal(again[name], value) for name, value in once.items())


def test_is_right_counts_labels(trained):
    _, vocabulary, model = trained
    asked = toy(60, seed=1)
    wrong = Treebank(asked.sentences, ~asked.positive)
    np.testing.assert_array_equal(
        is_right(model, vocabulary, wrong), ~is_right(model, vocabulary, asked)
    )


# --- what is made of it ---------------------------------------------------------------------------


def made_up(extra: float, seed: int = 0) -> Sentiment:
    """400 types, rare or frequent; deciding ones are rare, and rare words are lost more often.

    extra: by how much more often deciding words are lost than neutral ones as frequent.
    """
    rng = np.random.default_rng(seed)
    count = np.where(np.arange(400) < 200, 20, 300)
    decides = rng.random(400) < np.where(count == 20, 0.5, 0.05)
    positive = np.where(decides, count, count // 2)
    occurrences = np.where(count == 20, 5, 30)
    of_word = np.repeat(np.arange(400), occurrences)
    chance = np.where(count == 20, 0.4, 0.1) + extra * decides
    lost = rng.random((2, 5, len(of_word))) < chance[of_word]
    right = rng.random((2, 5, 300)) < np.array([0.8, 0.7])[:, None, None]
    return Sentiment(
        right=right,
        unselectable=lost,
        by_layer=np.zeros((2, 5, 4)),
        held_back=np.zeros((2, 3)),
        sentence=np.arange(len(of_word)) // 10,
        type=np.where(rng.random(len(of_word)) < 0.02, -1, of_word),
        count=count,
        positive=positive,
        record={
            "arms": ["none", "other"],
            "positive_share": 0.45,
            "positive_share_of_training": 0.5,
            "examples": [],
        },
    )


ASKED = {"least": 10, "decides": 3.0, "neutral": 1.0, "draws": 2000}


def test_exposure_finds_what_was_put_in_and_nothing_else():
    found = exposure(made_up(0.1), "none", **ASKED)
    assert found.low < 0.1 < found.high
    assert found.low > 0.05
    assert found.p < 0.001
    assert found.by_seed.mean() == pytest.approx(found.difference)
    assert found.difference == pytest.approx(found.rates[0] - found.rates[1])
    # Deciding words are rare and so lost more often, but not more often than others as rare.
    data = made_up(0.0)
    nothing = exposure(data, "none", **ASKED)
    assert nothing.low < 0 < nothing.high
    assert nothing.p > 0.05
    known = data.type >= 0
    decides = np.abs(data.weight()) >= 3
    of_words = decides[data.type[known]]
    lost = data.unselectable[0][:, known]
    assert lost[:, of_words].mean() - lost[:, ~of_words].mean() > 0.05


def test_exposure_is_right_about_its_own_error():
    """Under no difference, p is below 0.1 in about a tenth of data sets, and 0 is mostly inside."""
    found = [exposure(made_up(0.0, seed), "none", **(ASKED | {"draws": 300})) for seed in range(40)]
    assert np.mean([one.p < 0.1 for one in found]) < 0.25
    assert np.mean([one.low < 0 < one.high for one in found]) > 0.8


def test_exposure_by_hand():
    data = made_up(0.0)
    found = exposure(data, "none", **ASKED)
    weight = np.abs(data.weight())
    shares, sizes = [], []
    for count in (20, 300):
        rates = []
        for kind in (weight >= 3, weight < 1):
            of_kind = np.isin(data.type, np.flatnonzero(kind & (data.count == count)))
            rates.append(data.unselectable[0][:, of_kind].mean())
            if len(rates) == 1:
                sizes.append(of_kind.sum())
        shares.append(rates[0] - rates[1])
    assert found.difference == pytest.approx(np.average(shares, weights=sizes))
    assert found.occurrences[0] == sum(sizes)


def test_exposure_needs_both_kinds():
    data = made_up(0.0)
    with pytest.raises(ResultError, match="both deciding and neutral"):
        exposure(data, "none", least=10, decides=99.0, neutral=1.0)
    with pytest.raises(ResultError, match="arm 'full' is not one of: none, other"):
        exposure(data, "full", **ASKED)


def test_lead_is_paired_by_sentence_and_seed():
    data = made_up(0.0)
    gain, low, high = lead(data, "none", "other")
    assert gain == pytest.approx(data.right[0].mean() - data.right[1].mean())
    assert low < gain < high
    assert lead(data, "other", "none")[0] == pytest.approx(-gain)
    # Where only few sentences differ, pairing makes the interval narrow.
    near = replace(data, right=np.stack([data.right[0], data.right[0]]))
    near.right[1, :, :10] = ~near.right[0, :, :10]
    _, narrow, wide = lead(near, "none", "other")
    assert wide - narrow < (high - low) / 2
    assert data.majority == 0.55


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


def test_an_interrupted_study_ends_as_it_would_have(files, tmp_path, monkeypatch):
    options = {"plan": replace(TINY, epochs=2), "rates": (1e-2, 2e-2), "seeds": (0, 1)}
    freeze_sentiment(*files, tmp_path / "whole", progress=False, **options)
    whole = Sentiment.read(tmp_path / "whole", sentiment.NAME)
    runs = 0

    def stops(*given):
        nonlocal runs
        runs += 1
        if runs == 9:
            raise KeyboardInterrupt
        return train_classifier(*given)

    monkeypatch.setattr(sentiment, "train_classifier", stops)
    with pytest.raises(KeyboardInterrupt):
        freeze_sentiment(*files, tmp_path / "out", progress=False, **options)
    with pytest.raises(ResultError, match="another plan"):
        freeze_sentiment(*files, tmp_path / "out", progress=False, **(options | {"plan": TINY}))
    freeze_sentiment(*files, tmp_path / "out", progress=False, **options)
    assert runs == 3 * (2 + 2) + 1  # what was finished is not run again
    again = Sentiment.read(tmp_path / "out", sentiment.NAME)
    assert not (tmp_path / "out" / "partial" / "sentiment").exists()
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
    assert not whole.unselectable[whole.of("full")].any()
    (marked,) = whole.marked("none")
    assert marked.words == ("w1", "is", "good")
    assert marked.bold == (False, False, True)
    assert whole.record["sentences"] == {"fitted": 109, "held_back": 12, "dev": 31}
    held = whole.held_back.argmax(axis=1)
    assert whole.record["chosen_rates"] == [(1e-2, 2e-2)[i] for i in held]


def test_command_needs_two_files_with_the_papers_sentences(files, tmp_path, monkeypatch):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(ResultError, match="needs two files"):
        command.run(parser.parse_args(["sentiment", str(files[0]), "--out", str(tmp_path)]))
    monkeypatch.setattr(sentiment, "TABLE_4", {"nothing like it": ("good",)})
    with pytest.raises(CorpusError, match="no sentence starts with 'nothing like it'"):
        command.run(parser.parse_args(["sentiment", *map(str, files), "--out", str(tmp_path)]))


# --- what is frozen -------------------------------------------------------------------------------


def test_the_frozen_study_is_whole():
    found = Sentiment.read(FROZEN, sentiment.NAME)
    record = found.record
    assert {"date", "versions", "sha256", "plan", "command"} <= set(record)
    assert found.right.shape == (len(ARMS), len(sentiment.SEEDS), record["sentences"]["dev"])
    assert found.held_back.shape == (len(ARMS), len(sentiment.RATES))
    best = found.held_back.argmax(axis=1)
    assert record["chosen_rates"] == [record["rates"][i] for i in best]
    assert found.sentence[-1] == record["sentences"]["dev"] - 1
    # By Theorem 1 nothing is unselectable with the scaling; without it something is.
    assert [bool(marks.any()) for marks in found.unselectable] == [False, True, True]
    assert (found.by_layer.max(axis=2) <= found.unselectable.mean(axis=2)).all()
    bold = {word for words in sentiment.TABLE_4.values() for word in words}
    marked = found.marked("none")
    assert {w for one in marked for w, b in zip(one.words, one.bold, strict=True) if b} == bold


def test_the_frozen_words_are_those_of_the_treebank(corpora_folder):
    train, dev = (corpora_folder / f"sst2_{part}.tsv" for part in ("train", "dev"))
    found = Sentiment.read(FROZEN, sentiment.NAME)
    assert found.record["sha256"] == {"train": sha256_of_file(train), "dev": sha256_of_file(dev)}
    given, asked = Treebank.read(train), Treebank.read(dev)
    words = [word for sentence in asked.sentences for word in sentence]
    assert len(words) == len(found.type)
    assert found.majority == max(asked.positive.mean(), 1 - asked.positive.mean())
    for place in range(0, len(words), 97):
        of_type = [words[place] in sentence for sentence in given.sentences]
        if found.type[place] < 0:
            assert not any(of_type)
            continue
        assert found.count[found.type[place]] == sum(of_type)
        assert found.positive[found.type[place]] == (of_type & given.positive).sum()
