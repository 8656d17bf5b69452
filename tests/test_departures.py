"""The page on departures: each effect is what a slow and obvious computation gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

import lnattn
from lnattn import FirstLayer
from lnattn.text.counts import Counts
from lnattn_book import departures


@pytest.fixture(scope="module")
def model() -> FirstLayer:
    whole = random_gpt2(seed=5, d_model=12, heads=3, vocab=30, context=16)
    return FirstLayer(embeddings_of(whole), attention_layer(whole), tokenizer=None, provenance={})


def test_half_precision_rounds_before_and_after_the_mean(model):
    eps = model.attention.ln.eps
    found = departures.half_precision_sigma(model.embeddings, eps)
    for token in (0, 7, 29):
        inputs = model.embeddings.W_E[token] + model.embeddings.W_P
        sigmas = (inputs.var(dim=-1, unbiased=False) + eps).sqrt()
        by_hand = np.float16(np.float32(sigmas.numpy().astype(np.float16)).mean())
        assert float(found[token]) == pytest.approx(float(by_hand), rel=1e-3)
        assert float(found[token]) == float(found[token].half())


def test_rounding_comes_before_the_mean_too(model, monkeypatch):
    """1.00045 and 1.0014 round to 1 and 1 + 2⁻¹⁰, whose mean rounds to 1; theirs does not."""
    both = torch.tensor([1.00045, 1.0014])
    monkeypatch.setattr(
        departures, "sigma_of_pairs", lambda embeddings, ids, *_: both.expand(len(ids), 2)
    )
    assert (departures.half_precision_sigma(model.embeddings, 0.0) == 1).all()
    assert both.mean().half() > 1


def test_the_effect_of_half_precision_is_small_and_not_nothing(model):
    documents = [np.random.default_rng(0).integers(30, size=200)]
    effect = departures.effect_of_half_sigma(model, Counts.from_documents(documents, 30), 20)
    assert 0 < effect.change < 2e-3
    assert effect.full.shape == effect.half.shape == (3,)
    assert np.abs(effect.full - effect.half).max() < 0.02


def test_attention_with_and_without_a_first_token(model):
    document = list(range(1, 12))
    two = departures.attention_with_and_without(model, [document], first=0, length=6)
    folded = lnattn.fold(model.attention)
    for name, window in (
        ("with", [[0, *range(1, 6)], [0, *range(6, 11)]]),
        ("without", [document[:6]]),
    ):
        last = [
            lnattn.six_terms(folded, model.embeddings, torch.tensor(ids)).attention()[:, -1]
            for ids in window
        ]
        torch.testing.assert_close(torch.from_numpy(two[name]), torch.stack(last).mean(dim=0))


def test_search_and_proof_agree_on_corners_with_a_point_inside():
    corners = np.array([[2.0, 1, 0], [0, -1, 1], [-1, 2, 0.5], [1, 0, -2]])
    keys = np.vstack([corners, corners.mean(axis=0)])
    table = departures.exact_and_searched(keys, scales=(1.0,))
    assert list(table.columns) == ["exact", "× 1"]
    assert table.loc["as drawn, float64"].tolist() == pytest.approx([0.2, 0.2])


def test_keys_lose_a_dimension_in_layer_norm_and_rounding_hides_it():
    keys = np.random.default_rng(0).standard_normal((60, 4))
    assert departures.ranks_after_layer_norm(keys) == (3, 4)
