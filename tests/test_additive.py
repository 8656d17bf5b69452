"""Shares of terms in KL(attention ‖ even attention): they add up, and equal scipy's integral."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from random_models import random_layer
from scipy.integrate import quad
from scipy.special import softmax
from test_contribution import random_embeddings, random_ids, scaled_scores
from test_distance import random_relative

from lnattn import distance_terms, fold, fold_relative, plain, six_terms
from lnattn.attention.terms import TERMS
from lnattn.contribution import additive
from lnattn.contribution.additive import SixTermShares, additive_kl, visible_keys
from lnattn.contribution.study import ADDITIVE, TEXT, contributions
from lnattn.rotary.weights import TokenEmbeddings


def from_even(p: np.ndarray) -> float:
    """KL(p ‖ even attention) by its definition."""
    positive = p[p > 0]
    return float((positive * np.log(positive * len(p))).sum())


def share_by_quad(scores: np.ndarray, term: np.ndarray, start: np.ndarray | float = 0.0) -> float:
    """∫ t Cov_t(term, scores) dt over 0 … 1, by scipy's adaptive quadrature; start: logits at 0."""

    def grows(t: float) -> float:
        p = softmax(t * scores + start)
        return t * float((p * term * (scores - p @ scores)).sum())

    edges = [0, *np.geomspace(1e-3, 1, 7)]
    parts = [quad(grows, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(edges)]
    return float(np.sum(parts))


def some_terms(factor: float = 1.0, causal: bool = True, n: int = 12):
    folded = fold(random_layer(3, 16, heads=2, d_head=5, causal=causal))
    return six_terms(scaled_scores(folded, factor), random_embeddings(4), random_ids(5, n))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("factor", [0.01, 1.0, 30.0])
def test_shares_add_up_to_the_divergence_from_even_attention(factor: float, causal: bool) -> None:
    """The spread of scores is .1, ten and hundreds of nats; six numbers a query, one sum."""
    terms = some_terms(factor, causal)
    added = additive_kl(terms)
    alpha = terms.attention().numpy()
    seen = visible_keys(12, causal, None).numpy()
    for head in range(2):
        for i in range(12):
            expected = from_even(alpha[head, i, seen[i]])
            assert float(added.divergence[head, i]) == pytest.approx(expected, abs=1e-10)
            assert float(added.shares[:, head, i].sum()) == pytest.approx(expected, abs=1e-10)
    assert float(added.error.max()) < 1e-10
    if causal:
        assert float(added.shares[..., 0].abs().max()) < 1e-12  # one key, no choice


@pytest.mark.parametrize("factor", [0.01, 1.0, 30.0])
def test_shares_equal_scipys_integral_and_the_plain_lines(factor: float) -> None:
    terms = some_terms(factor)
    added = additive_kl(terms)
    arrays = {name: terms[name].numpy() for name in TERMS}
    by_plain = plain.kl_shares(arrays, terms.folded.scale)
    for row, name in enumerate(TERMS):
        np.testing.assert_allclose(added.shares[row].numpy(), by_plain[name], atol=1e-10)
        for head, i in ((0, 1), (1, 5), (0, 11)):
            scores = terms.scores()[head, i, : i + 1].numpy() / terms.folded.scale
            term = arrays[name][head, i, : i + 1] / terms.folded.scale
            expected = share_by_quad(scores, term)
            assert float(added.shares[row, head, i]) == pytest.approx(expected, abs=1e-9)


def test_two_keys_by_hand() -> None:
    """One term, scores 0 and g: p(1) − ∫p = s(g) − log((1 + e^g)/2)/g for the second key."""
    g = 3.0
    terms = {"a": np.array([[[0.0, 0.0], [0.0, g]]]), "b": np.zeros((1, 2, 2))}
    expected = g / (1 + np.exp(-g)) - np.log((1 + np.exp(g)) / 2)
    shares = plain.kl_shares(terms, scale=1.0)
    assert shares["a"][0, 1] == pytest.approx(expected, abs=1e-12)
    assert shares["b"][0, 1] == 0
    assert expected == pytest.approx(from_even(softmax([0, g])), abs=1e-12)


@pytest.mark.parametrize("cap", [None, 0.5, 2.0])
@pytest.mark.parametrize("window", [None, 4])
def test_four_terms_with_a_soft_cap_and_a_window(cap: float | None, window: int | None) -> None:
    layer, _ = random_relative(30)
    layer = replace(layer, soft_cap=cap, window=window)
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(30, layer.d_model, generator=generator, dtype=torch.float64)
    terms = distance_terms(fold_relative(layer), TokenEmbeddings(rows), random_ids(6, 10))
    added = additive_kl(terms)
    assert added.shares.shape == (4, layer.n_heads, 10)
    alpha = terms.attention().numpy()
    for i in range(10):
        first = 0 if window is None else max(0, i - window + 1)
        for head in range(layer.n_heads):
            expected = from_even(alpha[head, i, first : i + 1])
            assert float(added.shares[:, head, i].sum()) == pytest.approx(expected, abs=1e-9)
    if cap is None and window is None:
        by_plain = plain.kl_shares({n: terms[n].numpy() for n in terms.names}, layer.scale)
        for row, name in enumerate(terms.names):
            np.testing.assert_allclose(added.shares[row].numpy(), by_plain[name], atol=1e-10)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("sink", [-30.0, 0.0, 7.0, 40.0])
def test_four_terms_beside_a_learned_sink(cap: float | None, sink: float) -> None:
    """The sink is one more key at which every term is 0, and whose e^0 counts e^sink times."""
    layer, _ = random_relative(30)
    layer = replace(layer, sinks=torch.full((layer.n_heads,), sink), soft_cap=cap)
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(30, layer.d_model, generator=generator, dtype=torch.float64)
    folded = fold_relative(layer)
    terms = distance_terms(folded, TokenEmbeddings(rows), random_ids(6, 10))
    added = additive_kl(terms)
    logits = folded.capped(terms.scores()).numpy()
    for head, i in ((0, 0), (1, 4), (2, 9), (3, 7)):
        p = softmax(np.append(logits[head, i, : i + 1], sink))
        even = softmax(np.append(np.zeros(i + 1), sink))
        expected = float((p * np.log(np.maximum(p, 1e-300) / even)).sum())
        assert float(added.divergence[head, i]) == pytest.approx(expected, abs=1e-10)
        assert float(added.shares[:, head, i].sum()) == pytest.approx(expected, abs=1e-9)
        if cap is None:
            scores = np.append(terms.scores()[head, i, : i + 1].numpy() / layer.scale, 0.0)
            for row, name in enumerate(terms.names):
                term = np.append(terms[name][head, i, : i + 1].numpy() / layer.scale, 0.0)
                by_hand = share_by_quad(scores, term, np.append(np.zeros(i + 1), sink))
                assert float(added.shares[row, head, i]) == pytest.approx(by_hand, abs=1e-9)


def test_scores_a_thousand_nats_apart() -> None:
    """The stated error holds at the stated spread, with many keys that tie."""
    scores = np.zeros((1, 400, 400))
    scores[0, -1, 7] = 1000.0
    scores[0, -1, 100:200] = 300.0
    halves = {"a": scores * 0.3, "b": scores * 0.7}
    shares = plain.kl_shares(halves, scale=1.0)
    assert shares["a"][0, -1] + shares["b"][0, -1] == pytest.approx(np.log(400), abs=1e-10)
    assert shares["a"][0, -1] == pytest.approx(0.3 * np.log(400), abs=1e-10)


@pytest.mark.parametrize("spread", [1e-6, 7.9, 8.1, 100.0, 1000.0])
def test_each_key_has_its_share_at_every_spread(spread: float) -> None:
    """A term on one key alone, beside p(1) − ∫ p(t) dt by the plain lines' points."""
    x = np.random.default_rng(1).uniform(size=300)
    x[:2] = 0, 1
    scores = spread * x
    t, weight = plain.path()
    expected = softmax(scores) - np.sum(
        [step * softmax(point * scores) for point, step in zip(t, weight, strict=True)], axis=0
    )
    seen = torch.ones(1, 300, dtype=torch.bool)
    for key in (0, 1, 17):
        term = np.zeros_like(scores)
        term[key] = 1
        parts = torch.from_numpy(np.stack([term, scores - term]))[:, None]
        shares = additive._shares(parts, seen, None)[:, 0].numpy()
        assert shares[0] == pytest.approx(expected[key], abs=1e-12)
        assert shares.sum() == pytest.approx(from_even(softmax(scores)), abs=1e-10)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_shares_by_blocks_are_those_of_whole_documents(scale: float | None, causal: bool) -> None:
    """A document of two blocks of queries, the second not full."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5, causal=causal))
    embeddings = random_embeddings(4, positions=100)
    ids = random_ids(5, 90)
    rescaled = folded if scale is None else replace(folded, scale=scale)
    whole = additive_kl(six_terms(rescaled, embeddings, ids)).shares.numpy()
    by_blocks = SixTermShares(folded, embeddings, scale)(ids)
    np.testing.assert_allclose(by_blocks, whole, rtol=2e-4, atol=2e-5)


def test_contributions_by_shares_average_the_same_numbers() -> None:
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=24)
    documents = [random_ids(10 + k, n).tolist() for k, n in enumerate([24, 9])]
    result = contributions(folded, embeddings, documents, convention=ADDITIVE)
    each = [additive_kl(six_terms(folded, embeddings, ids)).shares.numpy() for ids in documents]
    rows = np.concatenate([shares[..., 1:] for shares in each], axis=-1)
    np.testing.assert_allclose(result.grand_mean()[:, :2], rows.mean(-1), rtol=1e-5, atol=1e-6)
    assert result.record["convention"]["name"] == "additive"
    left_out = contributions(folded, embeddings, documents, convention=TEXT)
    assert not np.allclose(left_out.grand_mean(), result.grand_mean(), rtol=0.1)
