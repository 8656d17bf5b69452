"""The law of Gaussian keys against known cases and the walk, and what lowered scores cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.selectability_law import cost, gaussian, keys
from lnattn.selectability.decide import selectability


def test_the_walk_finds_what_the_law_says():
    result = gaussian.drawn((40, 90), (3, 6), 200)
    share = result["unselectable"] / np.array([40, 90])[:, None, None]
    error = share.std(axis=2, ddof=1) / np.sqrt(200)
    assert (np.abs(share.mean(axis=2) - result["expected"]) < 3.5 * error).all()


def test_an_effective_dimension_is_the_one_that_was_planted():
    rng = np.random.default_rng(1)
    windows = [rng.normal(size=(5, 200, 6)) @ rng.normal(size=(6, 6)) for _ in range(8)]
    result = keys.shares(lambda: iter(windows), (100, 200), (3, 6))
    assert result["share"].shape == (2, 2, 8)
    mean, low, high = keys.judged(result["share"], 200, (3, 6))["ratio"].T
    assert mean == pytest.approx([1, 1], abs=0.1)
    assert (low <= mean).all()
    assert (mean <= high).all()


@pytest.fixture(scope="module")
def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=50, n_positions=40, n_embd=8, n_layer=2, n_head=4, initializer_range=0.6,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


def test_lowered_keys_are_heard_less_by_the_second_half_alone(model):
    ids = torch.arange(40) * 7 % 50
    lowered = torch.zeros(2, 4, 20)
    logits = model(ids[None]).logits[0]
    expected = torch.nn.functional.cross_entropy(logits[20:-1], ids[21:])
    plain, clean, received = cost.loss_of_second_half(model, ids, lowered)
    assert plain == pytest.approx(expected.item(), abs=1e-5)
    lowered[0, 1, 3] = 5.0
    loss, moved, less = cost.loss_of_second_half(model, ids, lowered)
    assert abs(loss - plain) > 1e-6
    np.testing.assert_array_equal(moved[:, :, :20], clean[:, :, :20])
    odds = [attention[0, 1, 3] for attention in (received, less)]
    assert odds[1] < 0.05 * odds[0]


def test_classes_hold_for_every_query_and_pairs_are_alike():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(60, 3))
    lost, selectable_always = cost.classes(points, 30, 3)
    assert not (lost & selectable_always).any()
    for n in (30, 45, 60):
        decided = selectability(points[:n]).selectable[:30]
        assert not (decided & lost).any()
        assert (decided | ~selectable_always).all()
    received = rng.random(30)
    (free, by_attention) = cost.pairs(lost, selectable_always, received, rng)
    assert free.shape == by_attention.shape
    for unselectable, selectable in (free, by_attention):
        assert lost[unselectable].all()
        assert selectable_always[selectable].all()
        assert len(set(unselectable)) == len(set(selectable)) > 1
    gaps = [np.abs(np.diff(received[two], axis=0)).mean() for two in (free, by_attention)]
    assert gaps[1] < gaps[0]
    saving = cost.savings(np.array([[[1.0, 2.0], [3.0, 2.0]]] * 4))[:, 0, 0]
    assert saving == pytest.approx([0.5, -0.5])
