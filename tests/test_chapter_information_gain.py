"""The page on information gain: both divisions, shuffled heads, value vectors by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from lnattn import fold, load_first_layer
from lnattn.stats import spearman
from lnattn_book.chapters import information_gain as page
from lnattn_book.chapters.variance import frequency, lengths
from lnattn_book.studies import samples
from lnattn_book.studies.variance import token_norms


@pytest.fixture(scope="module")
def first():
    return load_first_layer("book-gpt2")


@pytest.fixture(scope="module")
def known(first):
    return frequency(first)


@pytest.fixture(scope="module")
def gain(first):
    return page.gain_of_tokens(first)


def test_spread_left_by_either_sigma(first, known):
    found = page.spread_left(first, known, draws=50)
    norms = token_norms(first.embeddings.W_E, first.attention.ln.eps)
    assert found.own.value == pytest.approx(norms.cv_after / norms.cv_before)
    divided = lengths(first, known.inputs, centred=False)
    before, after = divided["before"], divided["σ of the layer"]
    expected = (after.std() / after.mean()) / (before.std() / before.mean())
    assert found.layer.value == pytest.approx(expected)
    for interval in found:
        assert interval.low < interval.value < interval.high


def test_the_gain_is_of_tokens_that_occur_a_hundred_times_and_is_computed_once(first, gain):
    counts, _ = samples.token_counts(first)
    assert (counts.unigrams == 100).any()
    assert gain.tokens.tolist() == [
        token for token, count in enumerate(counts.unigrams) if count > 99
    ]
    assert page.gain_of_tokens(first) is gain


def test_correlations_with_the_gain_are_those_of_scipy(first, known, gain):
    found = page.who_knows_the_gain(first, known, gain)
    assert (known.counts[gain.tokens] >= page.SELDOM).all()
    norm = first.embeddings.W_E.double().norm(dim=1).numpy()
    expected = spearmanr(norm[gain.tokens], gain.gain).statistic
    assert found["norm"].rho == pytest.approx(expected)
    asserted = (first.embeddings.W_E @ fold(first.attention).b_QK[5]).double().numpy()
    expected = spearmanr((asserted / known.inputs.mean_sigma)[gain.tokens], gain.gain).statistic
    assert found["T^e, head 5"].rho == pytest.approx(expected, abs=1e-5)  # weights in float32
    assert page.table(found).loc["norm", "ρ"] == found["norm"].rho


def test_the_best_shuffled_head_is_below_a_head_that_learnt_it(first, known, gain):
    best = page.best_shuffled_head(first, known, gain, deals=4)
    assert best.shape == (4,)
    assert (best > 0).all()
    assert best.max() < page.who_knows_the_gain(first, known, gain)["T^e, head 5"].rho


def test_value_vectors_of_one_text_by_hand(first):
    found = page.value_lengths(first, texts=2)
    ids = samples.sample_framed(first)[1]
    x = first.embeddings.W_E[ids] + first.embeddings.W_P[: len(ids)]
    layer, head = first.attention, 3
    mean = x.mean(dim=1, keepdim=True)
    divisor = (x.var(dim=1, correction=0, keepdim=True) + layer.ln.eps).sqrt()
    normed = (x - mean) / divisor * layer.ln.gamma + layer.ln.beta
    size = (normed @ layer.W_V[head] + layer.b_V[head]).norm(dim=1).double()
    assert found.first[1, head] == pytest.approx(float(size[0]), rel=1e-5)
    assert found.others[1, head] == pytest.approx(float(size[1:].mean()), rel=1e-5)
    times = found.times_shorter()[head]
    assert times == pytest.approx(found.others[:, head].mean() / found.first[:, head].mean())


def test_heads_are_picked_by_name():
    one, other, third, fourth = (spearmanr_of(seed) for seed in range(4))
    knowing = {"norm": one, "T^e, head 0": other, "count": third, "T^e, head 1": fourth}
    assert page.of_heads(knowing) == [other, fourth]


def spearmanr_of(seed):
    return spearman(*np.random.default_rng(seed).normal(size=(2, 9)))
