"""Contributions of the six terms against the definition: softmax with a term removed, float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_layer

from lnattn import Embeddings, fold, plain, six_terms
from lnattn.attention.folding import FoldedAttention
from lnattn.attention.terms import TERMS
from lnattn.contribution.kl import SixTermKL, divergences
from lnattn.contribution.study import (
    ADDITIVE,
    LEVELS,
    PAPERS_CODE,
    TEXT,
    Contributions,
    contributions,
    kl_of_removal,
)
from lnattn.errors import ResultError


def random_embeddings(
    seed: int, vocab: int = 30, positions: int = 200, d: int = 16, size: float = 1.0
) -> Embeddings:
    generator = torch.Generator().manual_seed(seed)
    return Embeddings(
        size * torch.randn(vocab, d, generator=generator, dtype=torch.float64),
        size * torch.randn(positions, d, generator=generator, dtype=torch.float64),
    )


def scaled_scores(folded: FoldedAttention, factor: float) -> FoldedAttention:
    """The same block with queries (and so all six terms) multiplied by a factor."""
    return dataclasses.replace(folded, W_Q=folded.W_Q * factor, b_Q=folded.b_Q * factor)


def oracle(
    folded: FoldedAttention, embeddings: Embeddings, ids: torch.Tensor, scale: float | None = None
) -> np.ndarray:
    """KL by its definition: [term head query]."""
    scale = folded.scale if scale is None else scale
    terms = six_terms(folded, embeddings, ids)
    s = terms.scores().numpy()
    each = (plain.kl_of_removal(s, terms[name].numpy(), scale, folded.causal) for name in TERMS)
    return np.stack(list(each))


def random_ids(seed: int, n: int, vocab: int = 30) -> torch.Tensor:
    return torch.randint(0, vocab, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("factor", "n"), [(0.03, 70), (1.0, 90), (30.0, 70)])
def test_divergences_equal_the_definition(causal: bool, factor: float, n: int) -> None:
    """Small, ordinary and very large divergences; documents longer than a block of queries."""
    folded = scaled_scores(fold(random_layer(3, 16, heads=2, d_head=5, causal=causal)), factor)
    embeddings = random_embeddings(4)
    ids = random_ids(5, n)
    expected = oracle(folded, embeddings, ids)
    found = SixTermKL(folded, embeddings)(ids)
    assert found.dtype == np.float32
    # Scores reach hundreds for the largest factor, and single precision has 7 digits of them.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-7 * max(1.0, factor))
    assert expected[:, :, 1:].min() < expected.max() / 10


def test_tiny_divergences_keep_their_digits() -> None:
    """A term that moves attention by 1e-9 nats: E_p[t] and log E_p[e^-t] cancel to nine digits."""
    folded = scaled_scores(fold(random_layer(3, 16, heads=2, d_head=5)), 2e-5)
    embeddings = random_embeddings(4)
    ids = random_ids(6, 60)
    expected = oracle(folded, embeddings, ids)
    found = SixTermKL(folded, embeddings)(ids)
    assert 1e-13 < np.median(expected[..., 1:]) < 1e-8
    np.testing.assert_allclose(found[..., 1:], expected[..., 1:], rtol=2e-3)


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_keys_out_of_view_do_not_matter(size: float) -> None:
    """Whatever their scores, not a bit of the result changes."""
    rng = np.random.default_rng(0)
    terms = (size * rng.standard_normal((6, 50, 20))).astype(np.float32)
    found = divergences(terms, 30)
    for i in range(20):
        terms[:, 31 + i :, i] = 1e4 * (-1) ** i
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(divergences(terms, 30), found)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 9),
    heads=st.integers(1, 3),
    d_head=st.integers(1, 4),
    causal=st.booleans(),
    log_factor=st.floats(-3, 1),  # beyond it the definition itself underflows
    seed=st.integers(0, 10_000),
    repeated=st.booleans(),
)
def test_any_shape(
    n: int, heads: int, d_head: int, causal: bool, log_factor: float, seed: int, repeated: bool
) -> None:
    """One token, one head, one dimension, all tokens equal, tiny and huge scores."""
    folded = fold(random_layer(seed, 8, heads, d_head, causal))
    folded = scaled_scores(folded, 10**log_factor)
    embeddings = random_embeddings(seed + 1, vocab=7, positions=9, d=8)
    ids = torch.zeros(n, dtype=torch.long) if repeated else random_ids(seed, n, vocab=7)
    expected = oracle(folded, embeddings, ids)
    found = SixTermKL(folded, embeddings)(ids)
    assert found.shape == (6, heads, n)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    largest = float(six_terms(folded, embeddings, ids).scores().abs().max())
    # The scores carry an error of a few units in the seventh digit of the largest summand.
    np.testing.assert_allclose(found, expected, rtol=5e-4, atol=1e-6 * (1 + largest) ** 2)
    if causal:
        assert (found[..., 0] == 0).all()


def test_documents_are_averaged_as_by_hand() -> None:
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=24)
    documents = [random_ids(10 + k, n).tolist() for k, n in enumerate([24, 9, 1, 40])]
    result = contributions(folded, embeddings, documents)
    cut = [torch.tensor(ids[:24]) for ids in documents]
    each = [oracle(folded, embeddings, ids) for ids in cut]
    for i in (1, 5, 20):
        rows = np.stack([kl[..., i] for kl in each if kl.shape[-1] > i])
        np.testing.assert_allclose(result.mean[:, :2, i], rows.mean(0), rtol=1e-4, atol=1e-6)
        over_heads = rows.mean(axis=2)
        np.testing.assert_allclose(result.mean[:, 2, i], over_heads.mean(0), rtol=1e-4)
        error = over_heads.std(0, ddof=1) / len(rows) ** 0.5
        np.testing.assert_allclose(result.standard_error[:, 2, i], error, rtol=1e-3, atol=1e-6)
        assert (result.rows[:, :, i] == len(rows)).all()
    everything = np.concatenate([kl[..., 1:] for kl in each], axis=-1)
    np.testing.assert_allclose(result.grand_mean()[:, :2], everything.mean(-1), rtol=1e-4)
    expected = np.quantile(everything, LEVELS, axis=-1)
    np.testing.assert_allclose(result.overall[:, :, :2], expected, rtol=1e-3, atol=1e-6)
    for row, one in enumerate(each):
        assert (result.document_rows[row] == one.shape[-1] - 1).all()
        by_hand = one[..., 1:].mean(axis=1).sum(axis=-1)
        np.testing.assert_allclose(result.document_sums[row], by_hand, rtol=1e-4, atol=1e-6)
    assert result.documents == 4
    assert result.record["tokens"] == 24 + 9 + 1 + 24
    order = np.argsort(-everything.mean(axis=(1, 2)))
    assert result.ranking() == [TERMS[t] for t in order]


def test_convention_of_the_papers_code() -> None:
    """No 1/√d_head, divided by i + 1, last position of the context and rows ≤ 1e-10 left out."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 12)
    result = contributions(folded, embeddings, [ids.tolist()], convention=PAPERS_CODE)
    terms = six_terms(folded, embeddings, ids)
    for t, name in enumerate(TERMS):
        for i in range(12):
            p = terms.scores()[1, i, : i + 1].softmax(0)
            q = (terms.scores() - terms[name])[1, i, : i + 1].log_softmax(0)
            value = float(torch.nn.functional.kl_div(q, p, reduction="none").mean())
            if i in (0, 11):
                assert result.rows[t, 1, i] == 0
                assert np.isnan(result.mean[t, 1, i])
            else:
                assert result.mean[t, 1, i] == pytest.approx(value, rel=1e-4)
    plain = contributions(folded, embeddings, [ids.tolist()], convention=TEXT)
    assert plain.rows.min() == 1
    assert not np.allclose(plain.mean[..., 1:11], result.mean[..., 1:11], rtol=0.1)


def test_the_papers_code_leaves_out_the_last_position_of_the_context_only() -> None:
    """A text that ends before the context does keeps its last row."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 9)
    result = contributions(folded, embeddings, [ids.tolist()], convention=PAPERS_CODE)
    assert (result.rows[:, 1, 8] == 1).all()
    expected = oracle(folded, embeddings, ids, scale=1.0)[:, 1, 8] / 9
    np.testing.assert_allclose(result.mean[:, 1, 8], expected, rtol=1e-4)
    assert result.rows[..., 9:].sum() == 0


def test_quantiles_are_those_that_the_table_names() -> None:
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=24)
    result = contributions(folded, embeddings, [random_ids(10, 24).tolist()])
    columns = ["q0.025", "q0.25", "q0.5", "q0.75", "q0.975"]
    assert result.table().columns.tolist() == ["term", "head", "mean", *columns]
    kl = oracle(folded, embeddings, random_ids(10, 24))[..., 1:]
    row = result.table().set_index(["term", "head"]).loc[("pp", 1)]
    expected = np.quantile(kl[TERMS.index("pp"), 1], [0.025, 0.25, 0.5, 0.75, 0.975])
    np.testing.assert_allclose(row[columns].to_numpy(float), expected, rtol=1e-3)
    assert row["mean"] == pytest.approx(kl[TERMS.index("pp"), 1].mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("flag", "value"), [("scaled", False), ("per_key", True), ("floor", 0.02), ("ends", False)]
)
def test_each_part_of_a_convention_alone(flag: str, value: object) -> None:
    """The papers' code differs from their text in four ways; each is one way only."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 12)
    convention = dataclasses.replace(TEXT, **{flag: value})
    found = contributions(folded, embeddings, [ids.tolist()], convention=convention)
    expected = oracle(folded, embeddings, ids, scale=1.0 if flag == "scaled" else None)
    expected = np.concatenate([expected, expected.mean(axis=1, keepdims=True)], axis=1)
    counted = np.ones(expected.shape, dtype=bool)
    if flag == "per_key":
        expected = expected / np.arange(1, 13)
    elif flag == "floor":
        counted = expected > 0.02
        assert 10 < counted.sum() < counted.size - 10
    elif flag == "ends":
        counted[..., -1] = False
    if flag == "per_key":
        np.testing.assert_allclose(found.mean, expected, rtol=1e-3, atol=1e-6)
    else:
        np.testing.assert_array_equal(found.rows, counted)
        np.testing.assert_allclose(found.mean[counted], expected[counted], rtol=1e-3, atol=1e-6)
    assert found.record["convention"] == vars(convention)


def test_shares_that_add_up_are_another_convention() -> None:
    """One query, two keys: shares sum to KL(α ‖ even) = log 2 − H(α), removals do not."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 2)
    found = contributions(folded, embeddings, [ids.tolist()], convention=ADDITIVE)
    alpha = six_terms(folded, embeddings, ids).attention()[:, 1].numpy()
    from_even = np.log(2) + (alpha * np.log(alpha)).sum(axis=1)
    np.testing.assert_allclose(found.mean[:, :2, 1].sum(axis=0), from_even, rtol=1e-4, atol=1e-6)
    removals = contributions(folded, embeddings, [ids.tolist()])
    assert np.abs(removals.mean[:, :2, 1].sum(axis=0) - from_even).max() > 1e-3


def test_no_query_with_a_choice_has_no_grand_mean() -> None:
    """Texts of one token: a causal query sees itself alone."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    found = contributions(folded, random_embeddings(4, positions=12), [[1], [2]])
    with pytest.raises(ResultError, match="two keys"):
        found.grand_mean()
    assert found.n_heads == 2
    assert found.documents == 2
    assert np.isnan(found.standard_error[..., 1:]).all()


def test_removing_a_term_of_two_keys_by_hand() -> None:
    """α = (3/4, 1/4), even without a term of log 3 on the first key. A masked key has no say."""
    scores = torch.tensor([np.log(3), 0.0, -torch.inf], dtype=torch.float64)
    term = torch.tensor([np.log(3), 0.0, 5.0], dtype=torch.float64)
    expected = 0.75 * np.log(0.75 / 0.5) + 0.25 * np.log(0.25 / 0.5)
    assert float(kl_of_removal(scores, term)) == pytest.approx(expected, abs=1e-12)


def test_the_mean_of_heads_is_a_slot_of_its_own() -> None:
    """Its grand mean and quantiles are over the means of heads, not those of the heads' values."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=24)
    documents = [random_ids(10, 20).tolist(), random_ids(11, 7).tolist()]
    result = contributions(folded, embeddings, documents)
    each = [oracle(folded, embeddings, torch.tensor(ids))[..., 1:] for ids in documents]
    means = np.concatenate(each, axis=-1).mean(axis=1)
    np.testing.assert_allclose(result.grand_mean()[:, 2], means.mean(axis=-1), rtol=1e-4)
    expected = np.quantile(means, [0.025, 0.25, 0.5, 0.75, 0.975], axis=-1)
    np.testing.assert_allclose(result.overall[:, :, 2], expected, rtol=1e-3, atol=1e-6)
    last = result.table().set_index(["term", "head"]).loc[("e", "all")]
    assert last["mean"] == pytest.approx(means[TERMS.index("e")].mean(), rel=1e-4)


@pytest.mark.parametrize("per_key", [False, True])
def test_where_queries_see_both_ways_the_first_has_a_choice(per_key: bool) -> None:
    """Every query of a text of seven has seven keys, by which the papers' code divides."""
    folded = fold(random_layer(3, 16, heads=2, d_head=5, causal=False))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 7)
    convention = dataclasses.replace(TEXT, per_key=per_key)
    result = contributions(folded, embeddings, [ids.tolist()], convention=convention)
    expected = oracle(folded, embeddings, ids) / (7 if per_key else 1)
    np.testing.assert_allclose(result.mean[:, :2, :7], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result.grand_mean()[:, :2], expected.mean(axis=-1), rtol=1e-4)
    median = np.median(expected, axis=-1)
    np.testing.assert_allclose(result.overall[2, :, :2], median, rtol=1e-3, atol=1e-6)
    assert (result.document_rows == 7).all()
    sums = expected.mean(axis=1).sum(axis=-1)
    np.testing.assert_allclose(result.document_sums[0], sums, rtol=1e-4)


def test_shares_of_unscaled_scores_are_of_their_own_softmax() -> None:
    folded = fold(random_layer(3, 16, heads=2, d_head=5))
    embeddings = random_embeddings(4, positions=12)
    ids = random_ids(11, 6)
    convention = dataclasses.replace(ADDITIVE, scaled=False)
    found = contributions(folded, embeddings, [ids.tolist()], convention=convention)
    alpha = six_terms(folded, embeddings, ids).scores()[:, 5].softmax(-1).numpy()
    from_even = np.log(6) + (alpha * np.log(alpha)).sum(axis=1)
    np.testing.assert_allclose(found.mean[:, :2, 5].sum(axis=0), from_even, rtol=1e-4, atol=1e-6)


def test_terms_are_ranked_by_the_mean_of_heads_and_unknown_ones_come_last() -> None:
    """By hand: three terms of one head at three positions; the first query has no choice."""
    mean = np.array([[[9.0, 1, 3], [9, 1, 3]], [[9, 4, 0], [9, 4, 0]], [[9, 0, 0], [9, 0, 0]]])
    rows = np.array([[[2, 2, 1]] * 2, [[2, 2, 1]] * 2, [[2, 0, 0]] * 2])
    record = {"causal": True, "terms": ["a", "b", "c"], "documents": 2}
    found = Contributions(
        mean=mean,
        standard_error=mean,
        rows=rows,
        overall=np.zeros((5, 3, 2)),
        document_sums=np.zeros((2, 3)),
        document_rows=np.zeros((2, 3)),
        record=record,
    )
    np.testing.assert_allclose(found.grand_mean()[:2, 1], [5 / 3, 8 / 3])
    assert np.isnan(found.grand_mean()[2]).all()
    assert found.ranking() == ["b", "a", "c"]
    both_ways = dataclasses.replace(found, record={**record, "causal": False})
    np.testing.assert_allclose(both_ways.grand_mean()[:, 0], [23 / 5, 26 / 5, 9])
    assert both_ways.ranking() == ["c", "b", "a"]
