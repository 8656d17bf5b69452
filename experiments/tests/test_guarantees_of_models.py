"""`experiments.guarantees`: what is asked of a model, by `lnattn.guarantee` and by hand."""

from __future__ import annotations

import families
import numpy as np
import pytest
import torch

import lnattn
from experiments.guarantees import __main__ as experiment
from lnattn.guarantees import EveryText
from lnattn_book.frozen.kinds import read
from lnattn_book.studies.guaranteed import LENGTH, NEAR, Guaranteed
from lnattn_book.studies.samples import token_counts

QUERIES = 6


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """The command on book-llama, of few queries and one draw: the folder of what it froze."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "SMALL", 0)
        patch.setattr(experiment, "QUERIES", QUERIES)
        asked = ["book-llama", "--nulls", "1", "--out", str(out)]
        experiment.run(experiment.parser().parse_args(asked))
    return out / "book-llama"


@pytest.fixture(scope="module")
def model():
    return lnattn.load_first_layer("book-llama")


def test_what_is_frozen_is_by_guarantee(frozen, model):
    read(frozen / "guarantees.json")
    guaranteed = Guaranteed.read(frozen)
    assert guaranteed.queries.shape == (2, QUERIES)
    assert guaranteed.null_least.shape == (1, 2, model.attention.n_heads, QUERIES)
    asked = {
        "length": LENGTH,
        "query": int(guaranteed.queries[1, 2]),
        "key": int(guaranteed.keys[1, 2]),
    }
    by_hand = lnattn.guarantee(model, head=5, **asked)
    assert guaranteed.least[0, 1, 5, 2] == pytest.approx(by_hand.least, abs=1e-6)
    assert guaranteed.greatest[0, 1, 5, 2] == pytest.approx(by_hand.greatest, abs=1e-6)
    often = experiment.written(model, token_counts(model)[0])
    of_written = lnattn.guarantee(model, head=5, vocabulary=often, **asked)
    assert guaranteed.least[1, 1, 5, 2] == pytest.approx(of_written.least, abs=1e-6)
    assert of_written.least >= by_hand.least
    assert not set(model.tokenizer.all_special_ids) & set(often.tolist())


def test_main_predecessors_are_the_most_frequent(frozen, model):
    guaranteed = Guaranteed.read(frozen)
    before = token_counts(model)[0].by_next
    for query, key in zip(guaranteed.queries.ravel(), guaranteed.keys.ravel(), strict=True):
        column = before[:, [query]].toarray().ravel()
        assert column[key] == column.max() > 0


def test_wrong_predecessors_are_those_of_other_pieces(frozen, model):
    guaranteed = Guaranteed.read(frozen)
    order = np.random.default_rng(1).permutation(QUERIES)
    wrong = guaranteed.keys[0, order[0]]
    pair = {"query": int(guaranteed.queries[0, 0]), "key": int(wrong)}
    by_hand = lnattn.guarantee(model, head=3, length=LENGTH, **pair)
    assert guaranteed.wrong[0, 3, 0] == pytest.approx(by_hand.least, abs=1e-6)


def test_the_nearest_places_hold_the_query_and_nine_before(frozen, model):
    """Least of both: near places score their lowest, far ones their highest."""
    guaranteed = Guaranteed.read(frozen)
    low, high = EveryText(model, head=2, length=LENGTH).ends([int(guaranteed.queries[0, 1])])
    near = low[0, -NEAR:].exp().sum()
    far = high[0, :-NEAR].exp().sum()
    assert guaranteed.near[0, 0, 2, 1] == pytest.approx(float(near / (near + far)), abs=1e-6)


@pytest.mark.parametrize("kind", ["llama-default", "gpt2"])
def test_never_is_never(kind, monkeypatch):
    """Every query, every key and every place, one after the other."""
    monkeypatch.setattr(experiment, "LENGTH", 5)
    first = lnattn.first_layer(families.make(kind, torch.float64, scale=0.1))
    for head in range(first.attention.n_heads):
        every = EveryText(first, head=head, length=5)
        ids = torch.arange(every.vocab_size)
        half = torch.zeros(every.vocab_size, dtype=torch.bool)
        leads = torch.zeros(every.vocab_size, dtype=torch.bool)
        for at in range(4):
            half |= (every.attention(ids, at)[1] > 0.5).any(dim=0)
            leads[every.scores(ids, at, ids).argmax(dim=1)] = True
        by_hand = [float((~half).double().mean()), float((~leads).double().mean())]
        np.testing.assert_allclose(experiment.never_in(first, head), by_hand)
        assert 0 < by_hand[1] < 1


def test_g4_joins_what_is_frozen_and_changes_nothing_else(frozen, monkeypatch):
    before = Guaranteed.read(frozen)
    heads = before.least.shape[2]
    asked = []

    def never_in(model, head):
        asked.append(head)
        return np.array([0.5, 0.25])

    monkeypatch.setattr(experiment, "never_in", never_in)
    words = ["--never", "book-llama", "--out", str(frozen.parent)]
    experiment.run(experiment.parser().parse_args(words))
    read(frozen / "guarantees.json")
    after = Guaranteed.read(frozen)
    assert asked == [*range(heads)] * (1 + experiment.NEVER_NULLS)
    assert after.never.tolist() == [[0.5] * heads, [0.25] * heads]
    assert after.null_never.shape == (experiment.NEVER_NULLS, 2, heads)
    np.testing.assert_array_equal(after.least, before.least)
