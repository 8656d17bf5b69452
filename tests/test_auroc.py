"""AUROC without sorting against its definition, and against scikit-learn's, on the same scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.metrics import roc_auc_score

from lnattn import plain
from lnattn.affinity.auroc import (
    HeadAuroc,
    Neighbours,
    frequency_vectors,
    head_auroc,
)
from lnattn.affinity.auroc_kernel import aurocs_of_rows
from lnattn.attention.vectors import TokenVectors
from lnattn.text.counts import Counts


def oracle(scores: np.ndarray, positives: np.ndarray, counts: np.ndarray) -> float:
    """The AUROC by its definition, from the count of every token."""
    of_all = np.zeros(len(scores), dtype=np.int64)
    of_all[positives] = counts
    return plain.auroc(scores, of_all)


def kernel(scores: np.ndarray, positives: np.ndarray, counts: np.ndarray) -> float:
    """The kernel's answer for one row: token 0 of a table with that row only."""
    indptr = np.array([0, len(positives)])
    ids, weights = np.asarray(positives, np.int32), np.asarray(counts, np.int64)
    return aurocs_of_rows(scores[None], np.array([0]), indptr, ids, weights)[0]


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with many ties or hardly any, and one to V − 1 positives with counts."""
    vocab = draw(st.integers(2, 60))
    few = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 0.5000001, 3.0])
    wide = st.floats(-(2.0**100), 2.0**100, width=32)
    tiny = st.floats(-1, 1, width=32).map(lambda x: x * 2.0**-120)  # too close to divide by
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    values = draw(st.sampled_from([few, wide, tiny]))
    scores = np.array(draw(st.lists(values, min_size=vocab, max_size=vocab)), dtype=dtype)
    n = draw(st.integers(1, vocab - 1))
    positives = np.array(draw(st.permutations(range(vocab)))[:n], dtype=np.int32)
    counts = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 10**6)))
    return scores, positives, counts


@settings(max_examples=100, deadline=None)
@given(rows())
def test_row_equals_the_definition(row: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    assert kernel(*row) == pytest.approx(oracle(*row), abs=1e-9)


def test_heavy_weights_are_summed_exactly() -> None:
    rng = np.random.default_rng(3)
    scores = np.round(rng.normal(size=300), 1).astype(np.float32)
    positives = rng.choice(300, size=21, replace=False)
    counts = np.append(np.ones(20, np.int64), 2**40)
    weighted = 0
    for positive, count in zip(positives, counts.tolist(), strict=True):
        others = np.delete(scores, positives)
        below, equal = (others < scores[positive]).sum(), (others == scores[positive]).sum()
        weighted += count * (2 * int(below) + int(equal))
    assert kernel(scores, positives, counts) == weighted / (2 * int(counts.sum()) * 279)


def random_case(
    vocab: int = 70, heads: int = 3, width: int = 5, seed: int = 0
) -> tuple[TokenVectors, sparse.csr_array]:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(heads, vocab, width, generator=generator, dtype=torch.float64)
    keys = torch.randn(heads, vocab, width, generator=generator, dtype=torch.float64)
    rng = np.random.default_rng(seed)
    stream = np.minimum(rng.zipf(1.3, size=900) - 1, vocab - 6)  # the last tokens never occur
    return TokenVectors(queries, keys), Counts.from_documents([stream], vocab).bigrams


def test_every_head_and_query_equals_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, bigrams = random_case()
    dense = bigrams.toarray()
    # Blocks of a few rows, so that several are needed and the last is not full.
    monkeypatch.setattr("lnattn.affinity.scores.BLOCK_BYTES", 3 * 8 * 70)
    found = head_auroc(vectors, Neighbours.before(bigrams)).values
    expected = np.full_like(found, np.nan)
    for head in range(vectors.n_heads):
        scores = (vectors.queries[head] @ vectors.keys[head].T).numpy()
        for b in range(70):
            before = np.nonzero(dense[:, b])[0]  # a precedes b
            if 0 < len(before) < 70:
                expected[head, b] = oracle(scores[b], before, dense[before, b])
    assert np.isnan(expected).any()
    assert not np.isnan(expected).all()
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0)


def test_reversed_bigrams_are_successors() -> None:
    _, bigrams = random_case()
    after = Neighbours.after(bigrams)
    before = Neighbours.before(bigrams.T.tocsr())
    assert not np.array_equal(after.indptr, Neighbours.before(bigrams).indptr)
    for token in range(70):
        for a, b in zip(after.of(token), before.of(token), strict=True):
            np.testing.assert_array_equal(a, b)


def test_some_queries_only() -> None:
    vectors, bigrams = random_case()
    neighbours = Neighbours.before(bigrams)
    everything = head_auroc(vectors, neighbours).values
    some = head_auroc(vectors, neighbours, [2, 1, 1, 69]).values
    np.testing.assert_array_equal(some[:, [1, 2]], everything[:, [1, 2]])
    assert np.isnan(np.delete(some, [1, 2], axis=1)).all()


def test_tokens_without_an_auroc_are_left_out_of_the_mean() -> None:
    values = np.array([[0.9, np.nan, 0.5, np.nan], [0.2, np.nan, 0.4, np.nan]])
    result = HeadAuroc(values)
    np.testing.assert_allclose(result.mean(), [0.7, 0.3])


def test_labels_give_scikit_learn_the_same_question() -> None:
    vectors, bigrams = random_case()
    neighbours = Neighbours.before(bigrams)
    values = head_auroc(vectors, neighbours).values
    for query in np.nonzero(~np.isnan(values[0]))[0][:20].tolist():
        positive, weight = neighbours.labels(query)
        assert positive.sum() == neighbours.n_distinct[query]
        for head in range(vectors.n_heads):
            scores = vectors.scores([query])[head, 0].numpy()
            area = roc_auc_score(positive, scores, sample_weight=weight)
            assert area == pytest.approx(values[head, query], abs=1e-12)


def test_frequency_baseline_ranks_by_frequency() -> None:
    bigrams = sparse.csr_array(np.array([[0, 0, 7], [0, 0, 0], [0, 1, 0]]))
    vectors = frequency_vectors(np.array([10, 5, 5]))
    values = head_auroc(vectors, Neighbours.before(bigrams)).values
    np.testing.assert_allclose(values, [[np.nan, 0.25, 1.0]])


def test_a_stored_zero_is_no_neighbour() -> None:
    counts = sparse.csr_array(([3, 0, 2], ([0, 1, 2], [1, 1, 2])), shape=(3, 3))
    assert counts.nnz == 3
    for table in (Neighbours.before(counts), Neighbours.after(counts)):
        assert table.counts.tolist() == [3, 2]
        assert (table.counts > 0).all()
    assert Neighbours.before(counts).of(1)[0].tolist() == [0]
    assert Neighbours.before(counts).n_distinct.tolist() == [0, 1, 1]
