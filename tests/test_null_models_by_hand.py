"""What is measured of one draw of a null model, beside loops over a model of a few tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from random_models import random_gpt2
from scipy.stats import spearmanr

import lnattn
from lnattn.attention.nulls import permuted_weights
from lnattn.position.without_tokens import ASSUMED
from lnattn.weights import FirstLayer
from lnattn_book.chapters.information_gain import Gain
from lnattn_book.chapters.variance import Frequency
from lnattn_book.claims.rules import Rule
from lnattn_book.frozen import null_draws as null_models
from lnattn_book.studies.by_place import GPT2_SIGMA
from lnattn_book.studies.first_token import FirstTokenSwitch
from lnattn_book.studies.variance import frequency_study, variance_of_inputs

VOCAB, CONTEXT, EPS = 40, 32, 1e-5
COUNTS = np.random.default_rng(1).permutation(np.arange(VOCAB) ** 2) + 1


@pytest.fixture(scope="module")
def tiny() -> FirstLayer:
    """Three heads of width 8 with random gains and biases, and small position embeddings."""
    module = random_gpt2(0, vocab=VOCAB, context=CONTEXT, eps=EPS)
    with torch.no_grad():
        module.transformer.wpe.weight.mul_(0.1)
    return lnattn.first_layer(module)


@pytest.fixture(scope="module")
def known(tiny) -> Frequency:
    """Counts of the tiny vocabulary, and the variances of the model that was trained."""
    inputs = variance_of_inputs(tiny.embeddings, EPS)
    study = frequency_study(lnattn.fold(tiny.attention), tiny.embeddings, inputs, COUNTS)
    return Frequency(inputs, COUNTS, int(COUNTS.sum()), study)


def by_claim(drawn: Iterable[tuple[Rule, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    return {rule.claim: measures for rule, measures in drawn}


def asserted(first: FirstLayer, x: np.ndarray) -> np.ndarray:
    """b_QK x, by the unfolded layer: the query is LN(0)'s β, a key is x less its mean, times γ."""
    layer = first.attention
    gain, shift = layer.ln.gamma.numpy(), layer.ln.beta.numpy()
    rows = []
    for W_Q, W_K, b_Q in zip(layer.W_Q.numpy(), layer.W_K.numpy(), layer.b_Q.numpy(), strict=True):
        query = shift @ W_Q + b_Q
        keys = ((x - x.mean(axis=1, keepdims=True)) * gain) @ W_K
        rows.append(keys @ query)
    return np.array(rows)


def robust_z(values: np.ndarray) -> tuple[float, float]:
    between = values[1:-1]
    spread = 1.4826 * np.median(abs(between - np.median(between)))
    return tuple((values[[0, -1]] - np.median(between)) / spread)


def test_variances_of_embeddings_by_a_loop(tiny, known):
    W_E, W_P = tiny.embeddings.W_E.numpy(), tiny.embeddings.W_P.numpy()
    variance = [row.var() for row in W_E]
    covariances = [
        abs(np.mean((token - token.mean()) * (place - place.mean())))
        for token in W_E
        for place in W_P
    ]
    found = by_claim(null_models.of_variances(tiny, known))
    assert found["K12"]["rho"].rho == pytest.approx(spearmanr(variance, COUNTS).statistic)
    assert found["K12"]["ratio"] == pytest.approx(np.mean(variance) / np.mean(covariances))
    assert found["K12"]["tokens"] == COUNTS.sum()
    of_places = np.array([row.var() for row in W_P])
    low, middle, high = np.quantile(of_places[1:-1], (0.25, 0.5, 0.75))
    assert found["K13"]["first"] == pytest.approx(robust_z(of_places)[0])
    assert found["K13"]["last"] == pytest.approx(robust_z(np.log(of_places))[1])
    assert found["K13"]["spread"] == pytest.approx((high - low) / middle)


def test_frequency_asks_the_drawn_heads_and_the_trained_models_sigma(tiny, known, monkeypatch):
    gain = Gain(np.arange(5, 35), np.random.default_rng(2).normal(size=30))
    monkeypatch.setattr(null_models, "gain_of_tokens", lambda first: gain)
    drawn = permuted_weights(tiny, 3, heads_only=True)
    W_E, W_P = tiny.embeddings.W_E.numpy(), tiny.embeddings.W_P.numpy()
    sigma = [np.mean([np.sqrt((token + place).var() + EPS) for place in W_P]) for token in W_E]
    T_e = asserted(drawn, W_E) / sigma
    found = by_claim(null_models.of_frequency(drawn, known))
    of_counts = [abs(spearmanr(head, COUNTS).statistic) for head in T_e]
    for claim_id in ("K11", "K17"):
        np.testing.assert_allclose(found[claim_id]["rho"].value, of_counts, atol=1e-10)
        assert found[claim_id]["tokens"] == COUNTS.sum()
    of_gain = [abs(spearmanr(head[gain.tokens], gain.gain).statistic) for head in T_e]
    np.testing.assert_allclose(found["K19"]["elsewhere"].value, of_gain, atol=1e-10)
    norms = np.linalg.norm(W_E, axis=1)[gain.tokens]
    assert found["K19"]["norm"] == pytest.approx(abs(spearmanr(norms, gain.gain).statistic))


def test_the_first_token_by_hand():
    """Two texts, one head, queries 1 to 4; the ordinary σ would halve, and third, the attention."""
    true = np.array([[[0.5, 0.2, 0.2, 0.1]], [[0.7, 0.2, 0.2, 0.2]]])
    median = true / np.array([2.0, 3.0])[:, None, None]
    switch = FirstTokenSwitch(true, median, score=np.array([-2.0]), sigma_ratio=1.5)
    found = by_claim(null_models.of_the_first_token(switch))
    assert found["K15"]["score"].tolist() == [-2.0]
    wanted = (1.0 + 1.3) / (1.0 / 2 + 1.3 / 3)
    assert found["K15"]["amplification"].value.tolist() == pytest.approx([wanted])
    # Query 1 sees 2 keys, query 4 sees 5; a quarter of four queries is one.
    assert found["K20"]["short"].value.tolist() == pytest.approx([(0.5 + 0.7) * 2 / 2])
    assert found["K20"]["left"].value.tolist() == pytest.approx([(0.1 + 0.2) * 5 / (1.2 * 2)])


def test_a_draw_of_gpt2_by_place_alone_by_a_loop(tiny):
    seed = 4
    found = {(rule.claim, row): seen for rule, row, seen in null_models.of_gpt2(tiny, seed)}
    drawn = permuted_weights(tiny, seed, heads_only=True)
    W_P = tiny.embeddings.W_P.numpy()
    of_places = np.array([row.var() for row in W_P])
    score = asserted(drawn, W_P)  # T^p, times σ
    exact = found["K6", null_models.EXACT]["spearman"]
    for row, times in zip(exact, ASSUMED, strict=True):
        sigma = np.sqrt(times * np.median(of_places) + of_places + EPS)
        between = (score / sigma)[:, 1:-1]  # the trend leaves out the position at either end
        trends = [spearmanr(curve, np.arange(CONTEXT - 2)).statistic for curve in between]
        np.testing.assert_allclose(row, trends, atol=1e-10)
    alone = found["K15", null_models.ALONE]
    np.testing.assert_allclose(alone["score"], score[:, 0], atol=1e-10)
    token = GPT2_SIGMA.elsewhere**2 - np.median(of_places) - EPS
    sigma = np.sqrt(token + of_places + EPS)
    np.testing.assert_allclose(
        found["K20", null_models.ALONE]["short"].value,
        attention_on_the_first(drawn, W_P, sigma)[:, : (CONTEXT - 2) // 4].mean(axis=1),
        atol=1e-6,
    )
    ordinary = sigma.copy()
    ordinary[0] = np.median(sigma[1:])
    even = np.arange(CONTEXT - 2) + 2
    own = (attention_on_the_first(drawn, W_P, sigma) / even).mean(axis=1)
    other = (attention_on_the_first(drawn, W_P, sigma, ordinary) / even).mean(axis=1)
    np.testing.assert_allclose(alone["amplification"], own / other, rtol=1e-6)


def attention_on_the_first(
    first: FirstLayer, W_P: np.ndarray, sigma: np.ndarray, key_sigma: np.ndarray | None = None
) -> np.ndarray:
    """Of queries 1, 2, … but the last, times the number of keys: the position terms' softmax."""
    layer = first.attention
    gain = layer.ln.gamma.numpy()
    centred = (W_P - W_P.mean(axis=1, keepdims=True)) * gain
    of_keys = sigma if key_sigma is None else key_sigma
    rows = []
    for head, constant in enumerate(asserted(first, W_P)):
        queries = centred @ layer.W_Q[head].numpy() / sigma[:, None]
        keys = centred @ layer.W_K[head].numpy()
        scores = (queries @ keys.T + constant) / of_keys / np.sqrt(queries.shape[1])
        row = []
        for i in range(1, len(W_P) - 1):
            weights = np.exp(scores[i, : i + 1] - scores[i, : i + 1].max())
            row.append((i + 1) * weights[0] / weights.sum())
        rows.append(row)
    return np.array(rows)


def test_position_embeddings_of_gpt2_are_put_in_random_order(tiny, monkeypatch):
    seen = []
    monkeypatch.setattr(null_models, "of_outliers", lambda W_P: seen.append(W_P) or {})
    list(null_models.of_gpt2(tiny, seed=5))
    (drawn,) = seen
    W_P = tiny.embeddings.W_P
    assert not torch.equal(drawn, W_P)
    assert torch.equal(drawn.flatten().sort().values, W_P.flatten().sort().values)


def test_draws_are_kept_by_claim_and_row_from_seed_0_on(tiny, known, monkeypatch):
    """All heads of a draw are of its own seed, all frequencies those of the trained model."""
    gain = Gain(np.arange(5, 35), np.random.default_rng(2).normal(size=30))
    switch = FirstTokenSwitch(np.ones((1, 1, 4)), np.ones((1, 1, 4)), np.zeros(1), 1.5)
    monkeypatch.setattr(null_models, "load_first_layer", {"a folder": tiny}.__getitem__)
    monkeypatch.setattr(null_models, "frequency", lambda first: {id(tiny): known}[id(first)])
    monkeypatch.setattr(null_models, "gain_of_tokens", lambda first: gain)
    # Both take a text of English words, and the tiny model has 40 numbers.
    monkeypatch.setattr(null_models, "of_positions", lambda first: [])
    monkeypatch.setattr(null_models, "switch_on_text", lambda first: switch)
    wrong = Mock(draw=lambda seed: {"skills": seed})
    monkeypatch.setattr(null_models, "WrongQueries", lambda first: wrong)
    found = null_models.draws_of("a folder", draws=3)
    assert [drawn["skills"] for drawn in found["K5", "a folder"]] == [0, 1, 2]
    asked = ("K4", "K5", "K15", "K20", "K11", "K17", "K19", "K12", "K13")
    assert {key: len(drawn) for key, drawn in found.items()} == {
        (claim_id, "a folder"): 3 for claim_id in asked
    }
    W_E, W_P = tiny.embeddings.W_E.numpy(), tiny.embeddings.W_P.numpy()
    sigma = [np.mean([np.sqrt((token + place).var() + EPS) for place in W_P]) for token in W_E]
    for seed in range(3):
        T_e = asserted(permuted_weights(tiny, seed, heads_only=True), W_E) / sigma
        np.testing.assert_allclose(
            found["K11", "a folder"][seed]["rho"].value,
            [abs(spearmanr(head, COUNTS).statistic) for head in T_e],
            atol=1e-10,
        )
        of_places = permuted_weights(tiny, seed).embeddings.W_P.numpy().var(axis=1)
        outlier = found["K13", "a folder"][seed]["first"]
        assert outlier == pytest.approx(robust_z(of_places)[0])


def test_of_gpt2_without_its_tokens_the_draws_are_those_of_positions_alone(tiny, monkeypatch):
    partial = replace(tiny, embeddings=replace(tiny.embeddings, W_E=None))
    monkeypatch.setattr(null_models, "load_first_layer", lambda name: partial)
    monkeypatch.setattr(
        null_models, "frequency", lambda first: pytest.fail("it has no token to count")
    )
    found = null_models.draws_of("gpt2's attention", draws=2)
    rows = {null_models.EXACT: "K6 K7 K14 K23 K13", null_models.ALONE: "K8 K24 K15 K20"}
    assert {key: len(drawn) for key, drawn in found.items()} == {
        (claim_id, row): 2 for row, claims in rows.items() for claim_id in claims.split()
    }
    for seed, drawn in enumerate(found["K15", null_models.ALONE]):
        heads = permuted_weights(tiny, seed, heads_only=True)
        score = asserted(heads, tiny.embeddings.W_P.numpy())
        np.testing.assert_allclose(drawn["score"], score[:, 0], atol=1e-10)
