"""What chapter 7 states, on curves and models in which the answer is planted or done by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2
from scipy.stats import spearmanr

from lnattn import FirstLayer, fold
from lnattn.attention.layernorm import sigma
from lnattn.attention.nulls import permuted_weights
from lnattn_book.chapters import variance as chapter
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import claim
from lnattn_book.studies.by_place import ByPlace
from lnattn_book.studies.variance import frequency_study, variance_of_inputs

VOCAB = 60


@pytest.fixture(scope="module")
def first():
    model = random_gpt2(seed=8, d_model=24, heads=3, vocab=VOCAB, context=16)
    embeddings = embeddings_of(model)
    embeddings.W_E.mul_(torch.linspace(0.2, 3, VOCAB)[:, None])  # lengths that differ
    return FirstLayer(embeddings, attention_layer(model), None, {"name": "tiny"})


@pytest.fixture(scope="module")
def known(first):
    folded = fold(first.attention)
    inputs = variance_of_inputs(first.embeddings, folded.eps)
    counts = np.random.default_rng(0).integers(0, 50, VOCAB)
    study = frequency_study(folded, first.embeddings, inputs, counts)
    return chapter.Frequency(inputs, counts, int(counts.sum()), study)


def test_plateau_of_a_step():
    found = chapter.plateau(np.array([9.0, 3.0, 1.05, 1.0, 1.0, 1.0, 1.0, 0.01]))
    assert found == (9.0, 2, 5 / 8, 0.01)


def test_a_sink_is_above_even_and_fades_if_less_than_half_is_left():
    """Rows: even; a sink that stays; one that fades; a head that looks near and has none."""
    keys = np.arange(40) + 2
    fading = 3 * np.exp(-np.arange(40) / 8)
    against_even = np.stack([np.ones(40), np.full(40, 3.0), fading, fading / 10])
    found = chapter.sinks(against_even / keys)
    np.testing.assert_allclose(chapter.against_even(against_even / keys), against_even)
    assert found["sink"].tolist() == [False, True, True, False]
    assert found["fades"].tolist() == [False, False, True, False]
    assert found["short"][2] == pytest.approx(fading[:10].mean())
    assert found["left"][3] == pytest.approx(fading[-10:].mean() / fading[:10].mean())


def test_the_switch_needs_a_negative_score_and_a_gain():
    queries = np.full((4, 60), 0.1)
    own = queries * np.array([[3.0], [1.05], [3.0], [0.5]])
    scores = np.array([-1.0, -1.0, 1.0, -1.0])
    divisors = np.linspace(2, 1, 62)
    place = ByPlace(np.array(0.1), np.array(1e-5), own, queries, scores, divisors, {})
    found = chapter.switch_by_head(place, scale=4)
    assert found["switch"].tolist() == [True, False, False, False]
    assert found["times"].tolist() == pytest.approx([3, 1.05, 3, 0.5])
    assert found["score"].tolist() == pytest.approx([-1 / 8, -1 / 8, 1 / 8, -1 / 8])


def test_a_draw_has_a_switch_where_both_conditions_hold():
    gain = claim("K15").rule["gain"]
    draws = [
        {
            "score": Interval.of(np.array(scores)),
            "amplification": Interval.of(gain * np.array(times)),
        }
        for scores, times in (
            ([-1.0, -1.0, 1.0, 1.0], [1.2, 0.8, 1.2, 0.8]),
            ([-1.0, -2.0, -1.0, 1.0], [1.2, 3.0, 1.0, 2.0]),
        )
    ]
    assert chapter.switches_in_draws(draws) == [1, 2]


def test_lengths_by_either_sigma(first, known):
    W_E, W_P, eps = first.embeddings.W_E, first.embeddings.W_P, first.attention.ln.eps
    for centred in (True, False):
        rows = W_E - W_E.mean(dim=1, keepdim=True) if centred else W_E
        found = chapter.lengths(first, known.inputs, centred)
        for v in (0, 31, VOCAB - 1):
            length = float(rows[v].norm())
            assert found["before"][v] == pytest.approx(length)
            assert found["own σ"][v] == pytest.approx(length / float(sigma(W_E[v], eps)))
            layer = np.mean([float(sigma(W_E[v] + p, eps)) for p in W_P])
            assert found["σ of the layer"][v] == pytest.approx(length / layer)


def test_the_layer_leaves_lengths_where_positions_vary_too(first, known):
    table = chapter.what_division_leaves(first, known)
    assert table.left["before"] == 1
    assert table.left["own σ"] < 1e-3 < 0.05 < table.left["σ of the layer"] < 1
    assert np.isnan(table["knows frequency"]["own σ"])
    occurs = known.counts > 0
    lengths = chapter.lengths(first, known.inputs)["σ of the layer"]
    expected = spearmanr(lengths[occurs], known.counts[occurs]).statistic
    assert table["knows frequency"]["σ of the layer"] == pytest.approx(expected)
    before = chapter.lengths(first, known.inputs)["before"]
    assert table.spread["before"] == pytest.approx(np.std(before) / np.mean(before))


def test_shuffled_heads_keep_the_embeddings(first, known):
    found = chapter.shuffled_heads(first, known, deals=3)
    assert found.shape == (3, 3)
    folded = fold(permuted_weights(first, 2, heads_only=True).attention)
    occurs = known.counts > 0
    asserted = (folded.b_QK[1] @ first.embeddings.W_E.T).numpy() / known.inputs.mean_sigma
    expected = abs(spearmanr(asserted[occurs], known.counts[occurs]).statistic)
    assert found[2, 1] == pytest.approx(expected, abs=1e-9)


def test_chance_is_of_one_head_and_of_the_best():
    shuffled = np.arange(200.0).reshape(100, 2)
    assert chapter.chance(shuffled).head == pytest.approx(np.quantile(np.arange(200), 0.95))
    assert chapter.chance(shuffled).strongest == pytest.approx(np.quantile(shuffled[:, 1], 0.95))


def test_what_position_makes_of_the_published_sigma():
    """Variances that are a quarter of what was published make half of σ."""
    first, elsewhere = chapter.GPT2_SIGMA.first, chapter.GPT2_SIGMA.elsewhere
    variance = np.array([first**2 / 4, *[elsewhere**2 / 4] * 5, 0.0])
    assert chapter.made_by_position(variance) == pytest.approx((0.5, 0.5))
    sigma = np.array([1.02 * first, elsewhere])
    place = ByPlace(np.array(0.1), np.array(1e-5), *np.ones((2, 1, 1)), np.ones(1), sigma, {})
    assert chapter.off_the_published(place) == pytest.approx(0.02)
