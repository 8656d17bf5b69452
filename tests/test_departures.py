"""The page on departures: each effect is what a slow and obvious computation gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

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
    counts = Counts.from_documents(documents, 30)
    change, full, half = departures.effect_of_half_sigma(model, counts, 20)
    assert 0 < change < 2e-3
    assert full.shape == half.shape == (3,)
    assert np.abs(full - half).max() < 0.02
