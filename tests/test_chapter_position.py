"""What chapter 5 states: one head by hand, its parts alone, and heads with planted curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import Embeddings, FirstLayer, fold, load_first_layer
from lnattn.position.bias import PositionBias
from lnattn.position.sigma import InverseSigma
from lnattn.position.without_tokens import position_only
from lnattn_book.chapters import position
from lnattn_book.claims.intervals import Interval

N = 60


@pytest.fixture(scope="module")
def partial():
    model = random_gpt2(seed=4, d_model=24, heads=3, vocab=7, context=N)
    W_P = embeddings_of(model).W_P
    return FirstLayer(Embeddings(None, W_P), attention_layer(model), None, {"name": "tiny"})


@pytest.fixture(scope="module")
def found(partial):
    return position_only(partial)


@pytest.fixture(scope="module")
def bias(found):
    inverse = np.random.default_rng(0).uniform(0.5, 2, size=N)
    return replace(found.bias, inverse_sigma=InverseSigma(inverse, None, None))


def test_one_head_is_its_formula(bias, partial):
    folded, W_P = fold(partial.attention), partial.embeddings.W_P.numpy()
    inverse, head, i = bias.inverse_sigma.mean, 2, bias.queries[1]
    slope, wave, attention = position.one_head(bias, head, i)
    b, W = folded.b_QK[head].numpy(), folded.dense_W_QK(head).numpy()
    for j in (0, 3, i):
        assert slope[j] == pytest.approx(b @ W_P[j] * inverse[j] / folded.scale)
        product = W_P[i] @ W @ W_P[j] * inverse[i] * inverse[j]
        assert wave[j] == pytest.approx(product / folded.scale)
    expected = torch.softmax(torch.from_numpy(slope + wave), dim=0)
    np.testing.assert_allclose(attention, expected, rtol=1e-9)
    assert len(slope) == len(wave) == len(attention) == i + 1


def test_scores_of_a_wave_leave_out_position_0(bias, partial):
    """T^pp by its formula, not divided by the scale, of the keys that the query sees."""
    folded, W_P = fold(partial.attention), partial.embeddings.W_P.numpy()
    inverse, head, i = bias.inverse_sigma.mean, 1, bias.queries[1]
    product = W_P[i] @ folded.dense_W_QK(head).numpy() @ W_P[1 : i + 1].T
    expected = product * inverse[i] * inverse[1 : i + 1]
    np.testing.assert_allclose(position.scores_of_wave(bias, head, row=1), expected, rtol=1e-9)


def test_random_heads_are_counted_by_the_rules_of_k6_and_k7(monkeypatch):
    """Two heads, one draw: a wave that fits 1.5 times and one that explains too little."""
    of_claim = {
        "K6": {"spearman": [0.95, -0.95]},
        "K7": {"cycles": [1.5, 1.5], "wave": [0.6, 0.4], "near": [0.8, 0.7]},
    }
    monkeypatch.setattr(
        position,
        "frozen_nulls",
        lambda asked: {
            "a model": [{k: Interval.of(np.array(v)) for k, v in of_claim[asked].items()}]
        },
    )
    assert position.of_random_heads("a model") == ([1], [1], [1])


def test_a_crest_and_what_falls_behind_it():
    """Six keys; the highest wave stands at position 0, which does not count."""
    curves = position.OneHead(
        slope=np.array([0.0, 1.0, 1.5, 3.0, 4.0, 4.5]),
        wave=np.array([9.0, 2.0, 6.0, 1.0, 3.0, 5.0]),
        attention=np.full(6, 1 / 6),
    )
    assert position.crest(curves) == (3, 1.0, 3.0)
    assert position.falls_over_nearest(curves, keys=3) == (1.5, 4.0)


def test_parts_alone_are_softmaxes_of_one_term(bias):
    i = bias.queries[2]
    table = position.near_by_parts(bias, i)
    for head in range(3):
        slope, wave, attention = position.one_head(bias, head, i)
        for name, scores in (("slope", slope), ("wave", wave)):
            alone = torch.softmax(torch.from_numpy(scores), dim=0).numpy()
            assert table.loc[head, name] == pytest.approx(alone[-10:].sum())
        assert table.loc[head, "both"] == pytest.approx(attention[-10:].sum())


def test_a_wave_alone_cannot_tell_here_from_one_wave_ago():
    """Planted: a cosine of 20 positions and a slope, which is steep enough only with it."""
    place = np.arange(N, dtype=float)
    wave = 6 * np.cos(2 * np.pi * (place[None] - place[-1:]) / 20)
    planted = PositionBias((N - 1,), 0.15 * place[None], wave[None], None, 1.0, causal=True)
    table = position.near_by_parts(planted, N - 1)
    assert table.wave[0] < 0.4
    assert table.both[0] > 0.9 > table.slope[0]
    assert position.looking_near(planted) == [0]
    assert position.looking_near(replace(planted, self_assertion=0 * place[None])) == []


def test_the_table_of_heads_takes_the_weakest_slope_and_the_last_query(found, bias):
    table = position.heads(found, bias)
    assert len(table) == 3
    np.testing.assert_allclose(table["slope, any σ"].abs(), np.abs(found.spearman).min(axis=0))
    assert set(table["slope, any σ"]) <= set(found.spearman.ravel())
    last = bias.queries[-1]
    np.testing.assert_allclose(
        table["near"], bias.attention()[:, -1, last - 9 : last + 1].sum(axis=-1)
    )


def test_waves_and_their_crests_by_hand():
    table = pd.DataFrame(
        {
            "is wave": [True, True, False, True],
            "wavelength": [500.0, 540.0, 9.0, 600.0],
            "crest": [10.0, 11.0, 470.0, 420.0],
        }
    )
    assert position.waves(table, near=10) == (540.0, [0], [2, 3])


def test_heights_leave_position_0_and_the_future_out():
    wave = np.array([[[9.0, 1.0, 2.0, 4.0, -7.0]]])  # [head query key]
    causal = PositionBias((3,), np.zeros((1, 5)), wave, None, 2.0, causal=True)
    assert position.heights(causal).tolist() == [1.5]
    assert position.heights(replace(causal, causal=False)).tolist() == [5.5]


def test_text_beside_position_in_the_embedded_model():
    found = position.on_text(load_first_layer("book-gpt2"))
    assert found.terms.queries == found.measured.queries == (12, 125, 250)
    assert found.comparison["skill"].between(0, 1).all()
