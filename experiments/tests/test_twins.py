"""One object for both kinds of positions: against a loop, and against chapter 12's own formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from experiments.book_model.snapshots import turned
from experiments.twins.compare import by_place, by_position_alone, vectors_at
from lnattn import FirstLayer, fold, fold_relative, six_terms
from lnattn.attention.nulls import permuted_weights
from lnattn.rotary.position import distance_variance

COUNTS = np.random.default_rng(0).integers(1, 9, 15)


def model() -> FirstLayer:
    whole = random_gpt2(seed=8, d_model=12, heads=3, vocab=15, context=9)
    return FirstLayer(embeddings_of(whole), attention_layer(whole), None, {"name": "random"})


def test_scores_at_places_are_those_of_the_six_terms() -> None:
    learned = model()
    terms = six_terms(fold(learned.attention), learned.embeddings, [3, 14], [5, 7])
    score = vectors_at(learned, "queries", 7)[:, 14] * vectors_at(learned, "keys", 5)[:, 3]
    torch.testing.assert_close(score.sum(1), terms.scores()[:, 1, 0])


def test_shares_are_an_analysis_of_variance() -> None:
    """Learned: by all pairs of tokens and places. Rotary: those of chapter 12."""
    learned = model()
    weight = COUNTS / COUNTS.sum()
    share = by_place(learned, COUNTS, 9)
    q = vectors_at(learned, "queries", 8).numpy()
    keys = np.stack([vectors_at(learned, "keys", place).numpy() for place in range(9)])
    scores = np.einsum("hbd,nhad->hbna", q, keys)
    scores = scores - np.einsum("hbna,a->hb", scores, weight)[..., None, None] / 9
    total = np.einsum("hbna,b,a->h", scores**2, weight, weight) / 9
    alone = np.einsum("hbna,b,a->hn", scores, weight, weight)
    of_key = np.einsum("hbna,b->hna", scores, weight) - alone[..., None]
    np.testing.assert_allclose(share[3], alone.var(axis=1) / total)
    np.testing.assert_allclose(share[2], np.einsum("hna,a->h", of_key**2, weight) / 9 / total)
    rotary = turned(learned)
    share_of_study = distance_variance(
        fold_relative(rotary.attention), rotary.embeddings, COUNTS, range(9)
    ).share
    np.testing.assert_allclose(by_place(rotary, COUNTS, 9), share_of_study, rtol=1e-5)


@pytest.mark.parametrize("first_layer", [model(), turned(model())])
def test_attention_by_position_is_that_of_mean_queries_and_mean_keys(first_layer) -> None:
    dealt = permuted_weights(first_layer, 0, heads_only=True)
    patterns = by_position_alone([dealt, first_layer], COUNTS, 9)
    for layer, attention in zip((dealt, first_layer), patterns, strict=True):
        keys = [torch.from_numpy(COUNTS / COUNTS.sum()) @ vectors_at(layer, "keys", at).double()
                for at in range(9)]  # fmt: skip
        query = torch.from_numpy(COUNTS / COUNTS.sum()) @ vectors_at(layer, "queries", 8).double()
        scores = torch.einsum("hd,nhd->hn", query, torch.stack(keys)) / first_layer.attention.scale
        np.testing.assert_allclose(attention, scores.softmax(dim=1).numpy(), rtol=1e-5)
