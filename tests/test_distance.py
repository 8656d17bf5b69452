"""The four terms by distance: their definition, the six terms as a special case, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_layer

from lnattn import distance_terms, fold, fold_relative
from lnattn.attention.folding import softmax_over_keys
from lnattn.attention.terms import SixTerms
from lnattn.errors import ShapeError, TokenError
from lnattn.rotary.fold import MeanVectors, mean_vectors
from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn.rotary.weights import (
    HeadNorm,
    RelativeAttention,
    RMSNorm,
    Rotation,
    TokenEmbeddings,
)
from lnattn.weights import LayerNorm

VOCAB, D_MODEL = 11, 10
IDS = [3, 10, 3, 0, 7, 7, 8]


def angles(positions, dtype, rotated=4):
    """Rotation tables made by hand: pair m turns by position · 0.7^m."""
    speed = 0.7 ** torch.arange(rotated // 2, dtype=torch.float64)
    angle = torch.cat([positions[:, None].double() * speed] * 2, dim=1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def random_relative(seed: int, heads=4, key_heads=2, d_head=6, rms=True, **more):
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    gamma, beta = 1 + noise(D_MODEL), noise(D_MODEL)
    defaults = {
        "ln": RMSNorm(gamma, 1e-3) if rms else LayerNorm(gamma, beta, 1e-3),
        "rotation": Rotation(angles),
        "scale": 2.5,
    }
    layer = RelativeAttention(
        W_Q=noise(heads, D_MODEL, d_head),
        W_K=noise(key_heads, D_MODEL, d_head),
        b_Q=noise(heads, d_head),
        b_K=noise(key_heads, d_head),
        **{**defaults, **more},
    )
    return layer, TokenEmbeddings(noise(VOCAB, D_MODEL))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 9), key_heads=st.sampled_from([1, 2, 4]))
def test_the_sum_is_the_same_for_any_constants(seed, n, key_heads):
    layer, embeddings = random_relative(seed, key_heads=key_heads)
    folded = fold_relative(layer)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (n,), generator=generator)
    other = MeanVectors(
        *(torch.randn(b.shape, generator=generator).double() for b in (folded.b_Q, folded.b_K))
    )
    usual = distance_terms(folded, embeddings, ids)
    terms = distance_terms(folded, embeddings, ids, constants=other)
    torch.testing.assert_close(terms.scores(), usual.scores(), atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(
        terms.attention(), softmax_over_keys(usual.scores(), 2.5, causal=True)
    )


def test_six_terms_are_the_case_without_rotation(gpt2):
    """R = I, e + p in place of the token, q₀ = b_Q, k₀ = b_K: one decomposition."""
    layer = random_layer(5, D_MODEL, heads=3, d_head=4)
    generator = torch.Generator().manual_seed(6)
    tokens, positions = torch.randn(2, 7, D_MODEL, generator=generator, dtype=torch.float64)
    six = SixTerms(fold(layer), tokens, positions)
    still = RelativeAttention(
        layer.ln, layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, scale=layer.scale
    )
    folded = fold_relative(still)
    four = distance_terms(
        folded,
        TokenEmbeddings(tokens + positions),
        list(range(7)),
        constants=MeanVectors(folded.b_Q, folded.b_K),
    )
    close = {"atol": 1e-10, "rtol": 1e-10}
    torch.testing.assert_close(four.ee, six.ee + six.ep + six.pe + six.pp, **close)
    torch.testing.assert_close(four.e, six.e + six.p, **close)
    assert six.pe.std() > 0.01
    assert four.ed.std() > 0.01
    for name in ("ed", "d"):  # the same for all keys of a query (K2)
        torch.testing.assert_close(four[name], four[name][:, :, :1].expand(-1, -1, 7), **close)
    torch.testing.assert_close(four.attention(), six.attention(), **close)


def test_leaving_a_term_out():
    layer, embeddings = random_relative(2)
    terms = distance_terms(fold_relative(layer), embeddings, IDS)
    for name in DISTANCE_TERMS:
        expected = softmax_over_keys(terms.scores() - terms[name], 2.5, causal=True)
        torch.testing.assert_close(terms.attention(without=name), expected)
        assert (expected - terms.attention()).abs().max() > 1e-6
    with pytest.raises(KeyError, match="pp"):
        terms["pp"]


def test_only_differences_of_positions_matter():
    layer, embeddings = random_relative(3)
    folded = fold_relative(layer)
    here = distance_terms(folded, embeddings, IDS, positions=[0, 1, 2, 5, 6, 9, 20])
    there = distance_terms(folded, embeddings, IDS, positions=[30, 31, 32, 35, 36, 39, 50])
    usual = distance_terms(folded, embeddings, IDS)
    for name in DISTANCE_TERMS:
        torch.testing.assert_close(here[name], there[name], atol=1e-10, rtol=1e-10)
    assert (here.ee - usual.ee).abs().max() > 0.1


def test_bias_soft_cap_and_window():
    layer, embeddings = random_relative(
        4,
        bias=lambda distance: -0.5 * distance.expand(4, *distance.shape),
        soft_cap=1.5,
        window=3,
    )
    folded = fold_relative(layer)
    terms = distance_terms(folded, embeddings, IDS)
    bare = distance_terms(replace(folded, bias=None), embeddings, IDS)
    distance = torch.arange(7)[:, None] - torch.arange(7)
    torch.testing.assert_close(terms.d - bare.d, (-0.5 * distance.double()).expand(4, 7, 7))
    torch.testing.assert_close(terms.ee, bare.ee)
    capped = 1.5 * torch.tanh(terms.scores() / 2.5 / 1.5)
    seen = (distance >= 0) & (distance < 3)
    expected = capped.masked_fill(~seen, -torch.inf).softmax(-1)
    torch.testing.assert_close(terms.attention(), expected)


def test_means_by_counts_hold_the_biases_and_centre_the_terms():
    layer, embeddings = random_relative(7, norm_K=None)
    norm = HeadNorm(torch.rand(2, 6).double() + 0.5, torch.rand(2, 6).double(), 1e-6, centred=True)
    counts = torch.tensor([0, 5, 1, 0, 2, 9, 3, 1, 1, 4, 7])
    weights = counts.double() / counts.sum()
    for block in (layer, replace(layer, norm_K=norm), replace(layer, clip=0.7)):
        folded = fold_relative(block)
        means = mean_vectors(folded, embeddings, counts)
        everything = embeddings.rows(torch.arange(VOCAB))
        torch.testing.assert_close(means.q0, weights @ folded.queries(everything))
        torch.testing.assert_close(means.k0, weights @ folded.keys(everything))
    for tokens in (VOCAB - 1, VOCAB + 1):
        with pytest.raises(ShapeError, match=str(VOCAB)):
            mean_vectors(folded, embeddings, torch.ones(tokens))


@pytest.mark.parametrize("joint", [None, True])
def test_a_norm_of_heads_by_hand(joint):
    """Heads (3, 4) and (6, 8): their mean squares are 12.5 and 50, of both together 31.25."""
    x = torch.tensor([[[3.0, 4.0]], [[6.0, 8.0]]], dtype=torch.float64)
    gamma = torch.tensor([[2.0, 3.0], [5.0, 7.0]], dtype=torch.float64)
    beta = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    norm = HeadNorm(gamma, beta, 0.5) if joint is None else HeadNorm(gamma, beta, 0.5, joint=True)
    one, other = (13.0, 50.5) if joint is None else (31.75, 31.75)
    expected = [
        [[3 * 2 / one**0.5 + 1, 4 * 3 / one**0.5]],
        [[6 * 5 / other**0.5, 8 * 7 / other**0.5 - 1]],
    ]
    torch.testing.assert_close(norm(x), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("ids", "positions", "message"),
    [
        ([11], None, "token id 11"),
        ([-1], None, "token id -1"),
        ([], None, "non-empty"),
        ([1, 2], [0], "ascending"),
        ([1, 2], [3, 3], "ascending"),
        ([1, 2], [-1, 3], "position -1"),
    ],
)
def test_bad_indices_are_one_sentence(shapes_unchecked, ids, positions, message):
    layer, embeddings = random_relative(8)
    with pytest.raises(TokenError, match=message):
        distance_terms(fold_relative(layer), embeddings, ids, positions)


# ---- learned sinks ---------------------------------------------------------------------------


def with_sinks(seed: int = 5, **more):
    sinks = torch.tensor([0.0, 3.0, -2.0, 40.0]).double()
    layer, embeddings = random_relative(seed, sinks=sinks, **more)
    return distance_terms(fold_relative(layer), embeddings, IDS)


def test_a_sink_takes_its_share_and_changes_no_term():
    """Attention is that without the sink, times what the sink leaves: Z/(Z + e^sink)."""
    terms = with_sinks(soft_cap=1.5, window=3)
    bare, embeddings = random_relative(5, soft_cap=1.5, window=3)
    without = distance_terms(fold_relative(bare), embeddings, IDS)
    for name in DISTANCE_TERMS:
        assert torch.equal(terms[name], without[name])
    logits = terms.folded.capped(terms.scores())
    for head, query, first in ((0, 0, 0), (1, 6, 4), (2, 3, 1), (3, 6, 4)):
        total = logits[head, query, first : query + 1].exp().sum()
        sink = terms.folded.sinks[head].exp()
        expected = without.attention()[head, query] * total / (total + sink)
        torch.testing.assert_close(terms.attention()[head, query], expected, atol=1e-14, rtol=0)
    assert float(terms.attention()[3].sum()) < 1e-10  # e^40 leaves nothing


def test_a_sink_that_is_no_number_is_refused():
    with pytest.raises(ShapeError, match="sinks holds NaN"):
        random_relative(5, sinks=torch.full((4,), torch.nan))
