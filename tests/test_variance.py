"""Variances, rank correlations and the first-token switch against slow, obvious computations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import attention_layer, embeddings_of, random_gpt2
from scipy import sparse
from scipy.stats import spearmanr

from lnattn import fold
from lnattn.attention.layernorm import sigma
from lnattn.errors import ShapeError
from lnattn.position.sigma import assumed_inverse_sigma, inverse_sigma_bands
from lnattn.stats import spearman
from lnattn_book.studies import variance as variance_module
from lnattn_book.studies.first_token import FirstTokenSwitch, first_token_switch, switch_by_place
from lnattn_book.studies.variance import (
    VarianceOfInputs,
    frequency_study,
    information_gain,
    outliers_of,
    position_outliers,
    token_norms,
    variance_of_inputs,
)


@pytest.fixture(scope="module")
def model():
    return random_gpt2(seed=5, d_model=24, heads=3, vocab=40, context=16)


@pytest.fixture(scope="module")
def folded(model):
    return fold(attention_layer(model))


@pytest.fixture(scope="module")
def embeddings(model):
    return embeddings_of(model)


def test_variances_of_inputs_against_all_pairs(embeddings):
    found = variance_of_inputs(embeddings, 1e-5)
    e, p = embeddings.W_E.numpy(), embeddings.W_P.numpy()
    covariances = [abs(np.cov(ev, pj, bias=True)[0, 1]) for ev in e for pj in p]
    assert found.covariance == pytest.approx(np.mean(covariances), rel=1e-10)
    np.testing.assert_allclose(found.token, e.var(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.position, p.var(axis=1), rtol=1e-10)
    pairs = sigma(embeddings.W_E[:, None] + embeddings.W_P[None], 1e-5)
    np.testing.assert_allclose(found.mean_sigma, pairs.mean(dim=1), rtol=1e-10)
    assert found.ratio == pytest.approx(e.var(axis=1).mean() / np.mean(covariances))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=40))
def test_spearman_with_ties_is_that_of_scipy(pairs):
    x, y = np.array(pairs).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        with pytest.raises(ShapeError, match="constant"):
            spearman(x, y)
        return
    found = spearman(x, y)
    assert found.rho == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert -1 <= found.low <= found.rho <= found.high <= 1


def test_norms_against_a_loop(embeddings):
    W_E = embeddings.W_E
    found = token_norms(W_E, 1e-5)
    before = [float(row.norm()) for row in W_E]
    after = [float((row / sigma(row, 1e-5)).norm()) for row in W_E]
    assert found.variance_before == pytest.approx(np.var(before))
    assert found.variance_after == pytest.approx(np.var(after))
    assert found.cv_before == pytest.approx(np.std(before) / np.mean(before))
    assert found.cv_after == pytest.approx(np.std(after) / np.mean(after))
    assert 0 < found.centred_after < 1e-3
    assert token_norms(W_E, 0.0).centred_after < 1e-12


def test_outliers_are_robust_z_scores():
    variance = np.array([9.0, 1.0, 1.2, 0.8, 1.1, 0.9, 0.001])
    found = outliers_of(variance)
    inner = variance[1:-1]
    scale = 1.4826 * np.median(np.abs(inner - np.median(inner)))
    assert found.first == pytest.approx((9 - 1) / scale)
    assert found.last == pytest.approx((0.001 - 1) / scale)
    logs = np.log(inner)
    log_scale = 1.4826 * np.median(np.abs(logs - np.median(logs)))
    assert found.last_log == pytest.approx((np.log(0.001) - np.median(logs)) / log_scale)
    assert found.interior_spread == pytest.approx(0.2)


def test_frequency_study_leaves_rare_tokens_out(folded, embeddings):
    counts = np.random.default_rng(2).integers(0, 6, size=40)
    inputs = variance_of_inputs(embeddings, folded.eps)
    found = frequency_study(folded, embeddings, inputs, counts, min_count=2)
    assert (found.counts >= 2).all()
    assert len(found.tokens) == (counts >= 2).sum()
    for head in range(3):
        asserted = [
            float(folded.b_QK[head] @ embeddings.W_E[v])
            / np.mean([float(sigma(embeddings.W_E[v] + p, folded.eps)) for p in embeddings.W_P])
            for v in found.tokens
        ]
        np.testing.assert_allclose(found.asserted[head], asserted, rtol=1e-10)
        expected = spearmanr(asserted, counts[found.tokens]).statistic
        assert found.head_correlations[head].rho == pytest.approx(expected)
        assert found.table().loc[head, "Spearman"] == found.head_correlations[head].rho
    variance = embeddings.W_E.var(dim=1, correction=0).numpy()[found.tokens]
    expected = spearmanr(variance, found.counts).statistic
    assert found.variance_correlation.rho == pytest.approx(expected)


def test_switch_on_text_changes_the_first_key_only(folded, embeddings):
    ids = np.random.default_rng(3).integers(0, 40, size=(3, 7))
    found = first_token_switch(folded, embeddings, ids)
    true, changed, ratios = [], [], []
    for row in torch.from_numpy(ids):
        x = embeddings.W_E[row] + embeddings.W_P[:7]
        divisors = sigma(x, folded.eps)
        replaced = divisors.clone()
        replaced[0] = divisors[1:].median()
        ratios.append(float(divisors[0] / replaced[0]))
        for key_divisors, rows in ((divisors, true), (replaced, changed)):
            scores = ((x / divisors[:, None]) @ folded.W_Q + folded.b_Q[:, None]) @ (
                (x / key_divisors[:, None]) @ folded.W_K
            ).transpose(-1, -2)
            later = torch.ones(7, 7, dtype=torch.bool).triu(1)
            alpha = (scores / folded.scale).masked_fill(later, -torch.inf).softmax(-1)
            rows.append(alpha[:, 1:, 0])
    np.testing.assert_allclose(found.true, torch.stack(true), atol=1e-10)
    np.testing.assert_allclose(found.median, torch.stack(changed), atol=1e-10)
    assert found.sigma_ratio == pytest.approx(np.mean(ratios))
    expected = found.true.mean(axis=(0, 2)) / found.median.mean(axis=(0, 2))
    np.testing.assert_allclose(found.amplification(), expected)


def test_switch_by_place_is_a_softmax_of_two_terms_with_one_divisor_changed(folded, embeddings):
    """Row by row from W_QK itself; the queries' divisors and all other keys' stay as they are."""
    W_P, n = embeddings.W_P, embeddings.n_positions
    divisor = (embeddings.W_P.var(dim=1, correction=0) + 0.3 + 1e-5).sqrt()
    found = switch_by_place(folded, W_P, assumed_inverse_sigma(W_P, 0.3, 1e-5), block=5)
    changed = divisor.clone()
    changed[0] = 1 / np.median(1 / divisor[1:])
    assert found.true.shape == found.median.shape == (1, 3, n - 1)
    assert found.sigma_ratio == pytest.approx(float(divisor[0] / changed[0]))
    np.testing.assert_allclose(found.score, folded.b_QK @ W_P[0])
    for head in range(3):
        compared = W_P @ folded.dense_W_QK(head) @ W_P.T
        asserted = W_P @ folded.b_QK[head]
        for i in (1, 6, n - 1):
            for keys, attention in ((divisor, found.true), (changed, found.median)):
                scores = (compared[i] / divisor[i] + asserted) / keys / folded.scale
                expected = float(scores[: i + 1].softmax(0)[0])
                assert attention[0, head, i - 1] == pytest.approx(expected, rel=1e-10)


def test_switch_by_place_takes_the_mean_over_tokens_where_they_are_known(folded, embeddings):
    sigma_of_pairs = inverse_sigma_bands(embeddings, folded.eps)
    found = switch_by_place(folded, embeddings.W_P, sigma_of_pairs)
    inverse = (1 / sigma(embeddings.W_E[:, None] + embeddings.W_P[None], folded.eps)).mean(dim=0)
    assert found.sigma_ratio == pytest.approx(float(np.median(inverse[1:]) / inverse[0]))


def test_information_gain_is_zero_for_independent_and_large_for_certain_successors():
    generator = np.random.default_rng(0)
    weights = np.arange(1, 21) / 210
    counts = generator.multinomial(20_000, np.outer(weights, weights).ravel()).reshape(20, 20)
    counts[0] = 0
    gain = information_gain(sparse.csr_array(counts))
    assert np.isnan(gain[0])
    assert np.abs(gain[1:]).max() < 0.05
    counts[3] = 0
    counts[3, 7] = 1000
    certain = information_gain(sparse.csr_array(counts))
    by_hand = -np.log(counts[:, 7].sum() / counts.sum())
    assert certain[3] == pytest.approx(by_hand, abs=0.05)
    assert certain[3] > 5 * np.nanmax(np.abs(certain[4:]))


def test_outliers_of_logarithms_are_of_both_ends():
    """The first is 3 doublings above the middle, the last 2 below; half lie within one."""
    found = outliers_of(2.0 ** np.array([3, -1, 0, 1, -1, 1, 0, -2]))
    assert found.first_log == pytest.approx(3 / 1.4826)
    assert found.last_log == pytest.approx(-2 / 1.4826)
    same = position_outliers(torch.tensor([[3.0, -3.0]] * 2 + [[1.0, -1.0], [2.0, -2.0]] * 3))
    assert same.first == pytest.approx(outliers_of(np.array([9, 9, 1, 4, 1, 4, 1, 4.0])).first)


def test_amplification_is_of_means_over_texts_and_queries(folded, embeddings):
    """Of head 0 3/5 by 1/5; of head 1 as it was. A mean of ratios would be another number."""
    true = np.array([[[0.9, 0.5], [0.2, 0.4]], [[0.9, 0.1], [0.2, 0.4]]])
    median = np.array([[[0.1, 0.5], [0.2, 0.4]], [[0.1, 0.1], [0.2, 0.4]]])
    found = FirstTokenSwitch(true=true, median=median, score=np.zeros(2), sigma_ratio=2.0)
    assert found.amplification().tolist() == pytest.approx([3, 1])
    on_text = first_token_switch(folded, embeddings, np.array([[3, 1, 4]]))
    np.testing.assert_allclose(on_text.score, (folded.b_QK @ embeddings.W_P[0]).numpy())


def test_a_norm_departs_from_the_root_of_d_by_epsilon_alone():
    """Variances 1 and 4 with ε = 1/2: 1 − √(1/1.5) is the larger departure."""
    W_E = torch.tensor([[1.0, -1, 1, -1], [5.0, 1, 5, 1]], dtype=torch.float64)
    found = token_norms(W_E, 0.5)
    assert found.centred_after == pytest.approx(1 - np.sqrt(1 / 1.5), abs=1e-12)
    before = np.array([2, np.sqrt(52)])
    after = before / np.sqrt([1.5, 4.5])
    assert found.variance_before == pytest.approx((before[1] - before[0]) ** 2 / 4)
    assert found.cv_after == pytest.approx(abs(after[1] - after[0]) / after.sum())


def test_inputs_without_covariance_have_an_infinite_ratio():
    inputs = VarianceOfInputs(np.array([2.0, 4.0]), np.array([1.0]), 0.0, np.ones(2))
    assert inputs.ratio == np.inf
    assert VarianceOfInputs(np.array([2.0, 4.0]), np.array([1.0]), 1.5, np.ones(2)).ratio == 2


def test_the_table_of_frequencies_has_both_ends(folded, embeddings):
    """Tokens that occur at all; ends by Bonett and Wright's formula over them."""
    counts = np.random.default_rng(5).integers(0, 4, size=40)
    inputs = variance_of_inputs(embeddings, folded.eps)
    found = frequency_study(folded, embeddings, inputs, counts)
    occurring = np.flatnonzero(counts)
    assert found.tokens.tolist() == occurring.tolist()
    assert found.counts.tolist() == counts[occurring].tolist()
    np.testing.assert_allclose(found.variance, embeddings.W_E.numpy().var(axis=1)[occurring])
    table = found.table()
    for head in range(3):
        rho = spearmanr(found.asserted[head], counts[occurring]).statistic
        half = 1.959963985 * np.sqrt((1 + rho**2 / 2) / (len(occurring) - 3))
        ends = np.tanh(np.arctanh(rho) + np.array([-half, half]))
        assert table.loc[head].tolist() == pytest.approx([rho, *ends])
    assert found.variance_correlation.n == len(occurring)


@pytest.mark.parametrize("block", [7, 1 << 22])
def test_information_gain_by_a_loop(block, monkeypatch):
    """In nats, less the same of the successors in a random order, whatever is sorted at a time."""
    monkeypatch.setattr(variance_module, "_PAIRS", block)
    counts = np.random.default_rng(4).integers(0, 3, (6, 6))
    counts[2] = 0
    assert np.array_equal(
        information_gain(sparse.csr_array(counts)),
        information_gain(sparse.csr_array(counts), seed=0),
        equal_nan=True,
    )
    found = information_gain(sparse.csr_array(counts), seed=3)
    successors = [b for a in range(6) for b in range(6) for _ in range(counts[a, b])]
    np.random.default_rng(3).shuffle(moved := np.array(successors))
    of_next = counts.sum(axis=0) / counts.sum()

    def gain(successors) -> float:
        share = np.bincount(successors, minlength=6) / len(successors)
        return sum(p * np.log(p / q) for p, q in zip(share, of_next, strict=True) if p)

    begin = 0
    for a in range(6):
        end = begin + counts[a].sum()
        if a == 2:
            assert np.isnan(found[a])
        else:
            expected = gain(successors[begin:end]) - gain(moved[begin:end])
            assert found[a] == pytest.approx(expected, abs=1e-12)
        begin = end
