"""`lnattn.plain` against Hugging Face, scikit-learn and Qhull; the package against `plain`.

Elsewhere in these tests `plain` is the oracle of single functions; here both sides meet on random
weights, none of which is 1 or 0 by convention, and on the smallest cases there are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import attention_layer, embeddings_of, plain_layer, plain_rows, random_layer
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_auc_score
from test_distance import random_relative
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from lnattn import Embeddings, distance_terms, fold, fold_relative, plain, six_terms
from lnattn.attention.layernorm import center, standardise
from lnattn.attention.terms import TERMS, SixTerms, sigma_of_pairs
from lnattn.rotary.fold import MeanVectors
from lnattn.rotary.weights import Rotation, TokenEmbeddings

IDS = [3, 39, 3, 0, 17, 17, 8]
#: One token, one head, one feature and more of each; repeated tokens.
sizes = st.fixed_dictionaries(
    {
        "n": st.integers(1, 6),
        "heads": st.integers(1, 3),
        "d_model": st.integers(1, 8),
        "d_head": st.integers(1, 4),
        "causal": st.booleans(),
        "repeated": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def drawn(n, d_model, seed, repeated=False):
    """Rows of tokens and of positions, with a mean: forgetting to centre shows."""
    rows = np.random.default_rng(seed).normal(1.0, 2.0, (2, n, d_model))
    if repeated:
        rows[0, -1] = rows[0, 0]
    return rows


# ---- LayerNorm, attention and folding ------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 4), d=st.integers(2, 12), seed=st.integers(0, 2**31))
def test_layer_norm_is_torchs_and_is_projection_and_scaling(n, d, seed):
    x, (gamma, beta) = drawn(n, d, seed)[0], np.random.default_rng(seed).normal(size=(2, d))
    rows = torch.from_numpy(x)
    theirs = torch.nn.functional.layer_norm(
        rows, (d,), torch.from_numpy(gamma), torch.from_numpy(beta), 1e-3
    )
    close(plain.layer_norm(x, gamma, beta, 1e-3), theirs)
    close(x @ plain.centring(d), center(rows))
    close(plain.projection(d), plain.centring(d))
    close(plain.project_and_scale(x), standardise(rows), 1e-8)
    theirs = torch.nn.functional.rms_norm(rows, (d,), torch.from_numpy(gamma), 1e-3)
    close(plain.rms_norm(x, gamma, 1e-3), theirs)


def test_both_forms_of_a_block_are_hugging_faces(gpt2):
    """Eager attention in double precision, its weights and what it writes."""
    ids = torch.tensor([IDS])
    e, p = plain_rows(embeddings_of(gpt2))
    x = e[IDS] + p[: len(IDS)]
    block = gpt2.transformer.h[0]
    with torch.no_grad():
        alpha = gpt2(ids, output_attentions=True).attentions[0][0]
        before = torch.from_numpy(x)[None]
        mask = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        output = block.attn(block.ln_1(before), attention_mask=mask)[0][0]
    layer = plain_layer(attention_layer(gpt2))
    folded = plain.fold(layer)
    for found in (plain.attention(x, layer), plain.folded_attention(x, folded)):
        close(found[0], alpha)
        close(found[1], output)
    terms = plain.six_terms(e[IDS], p[: len(IDS)], folded)
    close(plain.attend(sum(terms.values()), folded.scale), alpha)


@settings(max_examples=40, deadline=None)
@given(sizes)
def test_folding_is_exact_and_the_packages_fold_is_this_one(size):
    layer = random_layer(
        size["seed"], size["d_model"], size["heads"], size["d_head"], size["causal"]
    )
    folded, fast = plain.fold(plain_layer(layer)), fold(layer)
    x = drawn(size["n"], size["d_model"], size["seed"], size["repeated"])[0]
    alpha, output = plain.attention(x, plain_layer(layer))
    for found in (
        plain.folded_attention(x, folded),
        (fast.attention(torch.from_numpy(x)), fast.output(torch.from_numpy(x))),
    ):
        close(found[0], alpha, 1e-8)
        close(found[1], output, 1e-8)
    shifted = plain.scores(x, plain_layer(layer)) - plain.folded_scores(x, folded)
    close(shifted, np.broadcast_to(shifted[:, :, :1], shifted.shape), 1e-8)  # one number a query
    for head in range(size["heads"]):
        close(fast.dense_W_QK(head), folded.W_QK[head])
        close(fast.W_V[head] @ fast.W_O[head], folded.W_VO[head])
    close(fast.b_QK, folded.b_QK)
    close(fast.b_VO, folded.b_VO)


# ---- terms ---------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(sizes)
def test_six_terms_add_up_and_are_the_packages(size):
    layer = random_layer(
        size["seed"], size["d_model"], size["heads"], size["d_head"], size["causal"]
    )
    e, p = drawn(size["n"], size["d_model"], size["seed"], size["repeated"])
    folded = plain.fold(plain_layer(layer))
    terms = plain.six_terms(e, p, folded)
    close(sum(terms.values()), plain.folded_scores(e + p, folded), 1e-8)
    fast = SixTerms(fold(layer), torch.from_numpy(e), torch.from_numpy(p))
    assert tuple(terms) == TERMS
    for name in TERMS:
        close(fast[name], terms[name], 1e-8)
    # A row of small variance has scores that no exp can hold; the identity is one of any scores.
    shrink = max(10.0, *(np.abs(term).max() / 20 for term in terms.values()))
    for name in TERMS:
        s, t, scale = sum(terms.values()) / shrink, terms[name] / shrink, folded.scale
        definition = plain.kl_of_removal(s, t, scale, folded.causal)
        assert (definition > -1e-12).all()
        if folded.causal:
            close(definition[:, 0], 0)  # one key: nowhere to move


def test_divergence_of_a_known_change():
    """Attention (½, ½) becomes (¼, ¾) when a term of (log 3, 0) is taken out of its scores."""
    s, t = np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
    t[0, 1, 0] = 2 * np.log(3.0)
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    close(plain.kl_of_removal(s, t, scale=2.0), [[0, expected]])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**31))
def test_sigma_from_variances_is_sigma_of_the_sum(tokens, positions, d, seed):
    e, p = drawn(tokens, d, seed)[0], drawn(positions, d, seed + 1)[1]
    direct = plain.sigma(e[:, None] + p, 1e-5)
    close(plain.sigma_of_pairs(e, p, 1e-5), direct, 1e-8)
    both = Embeddings(torch.from_numpy(e), torch.from_numpy(p))
    close(sigma_of_pairs(both, list(range(tokens)), list(range(positions)), 1e-5), direct, 1e-8)
    mean, low, high = plain.inverse_sigma_band(e, p, 1e-5)
    close(mean, (1 / direct).mean(axis=0))
    assert (low <= mean + 1e-12).all()
    assert (mean <= high + 1e-12).all()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rms", [False, True])
def test_distance_terms_are_the_packages(rms, interleaved):
    layer, embeddings = random_relative(1, rms=rms, rotation=Rotation(tables_of(interleaved),
                                                                      interleaved))  # fmt: skip
    ids = IDS_OF_ELEVEN
    fast = distance_terms(fold_relative(layer), embeddings, ids)
    terms = plain_distance_terms(layer, embeddings, ids, fast.constants, interleaved)
    assert tuple(terms) == fast.names
    for name in fast.names:
        assert terms[name].std() > 0.1
        close(fast[name], terms[name])
    close(plain.attend(sum(terms.values()), layer.scale), fast.attention())


IDS_OF_ELEVEN = [3, 10, 3, 0, 7, 7, 8]
SPEEDS = 0.7 ** np.arange(2)


def tables_of(interleaved):
    def tables(positions, dtype):
        angle = positions[:, None].double() * torch.from_numpy(SPEEDS)
        angle = angle.repeat_interleave(2, 1) if interleaved else torch.cat([angle] * 2, 1)
        return angle.cos().to(dtype), angle.sin().to(dtype)

    return tables


def plain_distance_terms(layer, embeddings: TokenEmbeddings, ids, constants: MeanVectors, turned):
    """The terms of a text from the layer as stored: nothing folded, every turn a matrix."""
    x = embeddings.W_E[ids].numpy()
    gamma, eps = layer.ln.gamma.numpy(), layer.ln.eps
    if hasattr(layer.ln, "beta"):
        y = plain.layer_norm(x, gamma, layer.ln.beta.numpy(), eps)
    else:
        y = plain.rms_norm(x, gamma, eps)
    group = layer.n_heads // len(layer.W_K)
    W_K, b_K, k0 = (w.numpy().repeat(group, 0) for w in (layer.W_K, layer.b_K, constants.k0))
    q = y @ layer.W_Q.numpy() + layer.b_Q.numpy()[:, None]
    k = y @ W_K + b_K[:, None]
    n, d_head = len(ids), layer.d_head
    R = np.array(
        [[plain.rotation(i - j, SPEEDS, d_head, turned) for j in range(n)] for i in range(n)]
    )
    return plain.distance_terms(q, k, constants.q0.numpy(), k0, R)


def test_rotation_is_that_of_transformers():
    """Llama's own function turns queries and keys; between them stands R of their distance."""
    speeds = 10.0 ** -np.arange(3)
    q, k = np.random.default_rng(0).normal(size=(2, 5, 6))
    angle = torch.cat([torch.arange(5)[:, None] * torch.from_numpy(speeds)] * 2, dim=1)[None]
    turned = apply_rotary_pos_emb(
        torch.from_numpy(q)[None, None], torch.from_numpy(k)[None, None], angle.cos(), angle.sin()
    )
    expected = (turned[0] @ turned[1].mT)[0, 0]
    for i in range(5):
        for j in range(5):
            close(q[i] @ plain.rotation(i - j, speeds, 6) @ k[j], expected[i, j])


# ---- affinity ------------------------------------------------------------------------------


def test_affinities_are_the_token_term_with_the_mean_sigma(gpt2):
    both, layer = embeddings_of(gpt2), attention_layer(gpt2)
    alone = Embeddings(both.W_E, both.W_P[:1])
    e, p = plain_rows(alone)
    term = six_terms(fold(layer), alone, [3, 17, 5], positions=[0] * 3).ee
    row = plain.affinities(5, e, p, plain.fold(plain_layer(layer)))
    close(row[:, [3, 17, 5]], term[:, 2])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 0.5000001]), st.integers(0, 3)), min_size=1)
)
def test_auroc_is_that_of_scikit_learn(rows):
    """Ties, zero counts, no positive or no negative at all."""
    row, counts = (np.array(column) for column in zip(*rows, strict=True))
    found = plain.auroc(row, counts)
    if not 0 < (counts > 0).sum() < len(row):
        assert np.isnan(found)
    else:
        weight = np.where(counts > 0, counts, 1)
        close(found, roc_auc_score(counts > 0, row, sample_weight=weight))


# ---- selectability -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(30, 2), (40, 3), (25, 4)])
def test_selectable_keys_are_the_corners_that_qhull_finds(n, d):
    keys = np.random.default_rng(n).normal(size=(n, d))
    assert set(np.flatnonzero(plain.selectability(keys)[0])) == set(ConvexHull(keys).vertices)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=10
        )
    ),
    st.booleans(),
)
def test_proofs_prove(rows, strict):
    """One key, copies, keys on a line or on facets: every verdict has a proof that holds."""
    keys = np.array(rows, dtype=float)
    verdicts, proofs = plain.selectability(keys, strict)
    for i, proof in enumerate(proofs):
        if verdicts[i]:
            copies = (keys == keys[i]).all(axis=1)
            rivals = ~copies if not strict else np.arange(len(keys)) != i
            assert (keys[rivals] @ proof < keys[i] @ proof - 1e-9).all()
        else:
            assert proof[i] == 0
            assert (proof >= 0).all()
            assert proof.sum() == pytest.approx(1)
            close(proof @ keys, keys[i], 1e-7)
            if not strict:
                assert not proof[(keys == keys[i]).all(axis=1)].any()


def test_far_small_and_flat_keys_are_decided_like_others():
    keys = np.random.default_rng(4).normal(size=(20, 3))
    expected = plain.selectability(keys)[0]
    for same in (keys + 1e8, keys * 1e-30, keys * [1, 1, 1e-4], keys @ np.eye(3, 5)):
        np.testing.assert_array_equal(plain.selectability(same)[0], expected)


def test_it_stands_alone():
    """NumPy and one solver, in at most 400 lines: readable in ten minutes."""
    lines = Path(plain.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 400
    imported = [line for line in lines if line.startswith(("import ", "from "))]
    assert {line.split()[1].partition(".")[0] for line in imported} == {
        "__future__",
        "typing",
        "numpy",
        "scipy",
    }
