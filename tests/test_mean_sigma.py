"""Attention with constant divisors, and folding a checkpoint whose LayerNorms were disabled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import lnattn
from experiments.nobody_reads_one.sigma_and_frequencies import attention_with, mean_sigma_study
from lnattn.attention.layernorm import layer_norm, sigma
from lnattn.weights import Embeddings, LayerNorm

TEXTS = [[5, 17, 300, 41, 8, 8, 90], [1023, 77, 2000, 11], [6]]


@pytest.fixture(scope="module")
def model():
    found = lnattn.load_first_layer("book-gpt2")
    return replace(
        found,
        attention=found.attention.to(torch.float64),
        embeddings=found.embeddings.to(torch.float64),
    )


def test_one_divisor_for_all_inputs(model):
    """By hand: the folded maps on (x − mean)/σ̄, in place of the module's own words."""
    folded = lnattn.fold(model.attention)
    found = mean_sigma_study(folded, model.embeddings, TEXTS)
    inputs = [model.embeddings.W_E[ids] + model.embeddings.W_P[: len(ids)] for ids in TEXTS[:2]]
    divisors = [sigma(x, folded.eps) for x in inputs]
    bar = torch.cat([one[1:] for one in divisors]).mean()
    assert found.sigma == pytest.approx(float(bar))
    first = torch.stack([one[0] for one in divisors]).mean()
    for keep, kl in ((False, found.kl), (True, found.kl_but_first)):
        rows = []
        for x in inputs:
            given = bar.expand(len(x)).clone()
            if keep:
                given[0] = first
            u = x / given[:, None]
            scores = torch.einsum("id,hdk->hik", u, folded.W_Q) + folded.b_Q[:, None]
            scores = scores @ torch.einsum("jd,hdk->hjk", u, folded.W_K).mT / folded.scale
            hidden = torch.ones(len(x), len(x)).triu(1).bool()
            flat = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            alpha = folded.attention(x)
            ratio = torch.where(hidden, 0.0, alpha * (alpha / flat.masked_fill(hidden, 1)).log())
            rows.append(ratio.nan_to_num().sum(-1)[:, 1:])
        np.testing.assert_allclose(kl, torch.cat(rows, 1).mean(1).numpy(), atol=1e-12)
    assert (found.total > 0).all()


def test_true_divisors_change_nothing(model):
    folded = lnattn.fold(model.attention)
    terms = lnattn.six_terms(folded, model.embeddings, TEXTS[0])
    x = terms.tokens + terms.positions
    same, other = (attention_with(folded, x, k * terms.sigma) for k in (1, 2))
    torch.testing.assert_close(same, terms.attention())
    assert float((other - terms.attention()).abs().max()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fold_survives_a_checkpoint_without_layernorm(model, dtype):
    """LayerNorm-free GPT-2 keeps its modules, with ε = 1e12 and γ·1e6: x/σ is x·1e-6 to 1e-12."""
    ln = model.attention.ln
    disabled = LayerNorm(ln.gamma * 1e6, ln.beta, eps=1e12)
    layer = replace(model.attention, ln=disabled).to(dtype)
    embeddings: Embeddings = model.embeddings.to(dtype)
    x = embeddings.W_E[TEXTS[0]] + embeddings.W_P[: len(TEXTS[0])]
    folded = lnattn.fold(layer)
    # What the original block computes: LN is linear up to 1e-12.
    plain = (x - x.mean(-1, keepdim=True)) * ln.gamma.to(dtype) + ln.beta.to(dtype)
    tight = {torch.float64: 1e-10, torch.float32: 1e-4}[dtype]
    torch.testing.assert_close(layer_norm(x, disabled.to(dtype)), plain, atol=tight, rtol=tight)
    q = torch.einsum("id,hdk->hik", plain, layer.W_Q) + layer.b_Q[:, None]
    k = torch.einsum("jd,hdk->hjk", plain, layer.W_K)
    expected = (q @ k.mT / layer.scale).masked_fill(
        torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf
    )
    torch.testing.assert_close(folded.attention(x), expected.softmax(-1), atol=tight, rtol=tight)
    terms = lnattn.six_terms(folded, embeddings, TEXTS[0])
    torch.testing.assert_close(terms.attention(), expected.softmax(-1), atol=tight, rtol=tight)


def test_one_divisor_for_all_tokens(model):
    """Scores of T^ee without σ keep no trace of it: as raw embeddings would score."""
    folded = lnattn.fold(model.attention)
    flat = torch.full((model.embeddings.vocab_size,), 0.5, dtype=torch.float64)
    found = lnattn.token_vectors(folded, model.embeddings, flat).scores([464])[:, 0]
    e = model.embeddings.W_E
    direct = torch.einsum("d,hdk,hek,ve->hv", e[464], folded.W_Q, folded.W_K, e) / 0.25
    torch.testing.assert_close(found, direct)
