"""Token affinity against the six terms, and streaming top-k against sorting everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import Embeddings, fold, plain
from lnattn.affinity import scores as blocks
from lnattn.affinity import topk
from lnattn.affinity.topk import partners
from lnattn.attention.layernorm import sigma
from lnattn.attention.vectors import (
    TokenVectors,
    cosine_vectors,
    diagonal_z,
    heat_map,
    mean_sigma,
    ranks,
    same_token_z,
    token_vectors,
)
from lnattn.errors import TokenError


@pytest.fixture(scope="module")
def vectors() -> TokenVectors:
    model = random_gpt2(seed=3, d_model=24, heads=3, vocab=40, context=16)
    return token_vectors(fold(attention_layer(model)), embeddings_of(model))


def test_mean_sigma_is_the_mean_over_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lnattn.attention.vectors._BLOCK", 5 * 16)  # blocks of five tokens
    model = random_gpt2(seed=3, d_model=24, heads=3, vocab=42, context=16)
    both = embeddings_of(model)
    expected = sigma(both.W_E[:, None] + both.W_P, 1e-5).mean(dim=1)
    torch.testing.assert_close(mean_sigma(both, 1e-5), expected, atol=1e-12, rtol=0)


def test_vectors_of_given_queries_are_rows_of_all() -> None:
    model = random_gpt2(seed=3, d_model=24, heads=3, vocab=40, context=16)
    folded = fold(attention_layer(model))
    every = token_vectors(folded, embeddings_of(model))
    some = token_vectors(folded, embeddings_of(model), query_ids=[31, 5, 31])
    assert some.tokens is not None
    assert some.tokens.tolist() == [5, 31]
    torch.testing.assert_close(some.queries, every.queries[:, [5, 31]], atol=1e-12, rtol=0)
    torch.testing.assert_close(some.keys, every.keys, atol=1e-12, rtol=0)
    with pytest.raises(TokenError, match="token id 40"):
        token_vectors(folded, embeddings_of(model), query_ids=[40])


def test_partners_of_both_sides(vectors: TokenVectors) -> None:
    table = vectors.queries @ vectors.keys.mT
    ids = torch.tensor([0, 7, 7, 39])
    of_queries = partners(vectors, ids, k=4)
    of_keys = partners(vectors, ids, k=4, side="queries")
    for row, token in enumerate(ids.tolist()):
        for h in range(3):
            expected = table[h, token].argsort(descending=True)[:4]
            assert of_queries.ids[h, row].tolist() == expected.tolist()
            np.testing.assert_allclose(of_queries.scores[h, row], table[h, token, expected])
            expected = table[h, :, token].argsort(descending=True)[:4]
            assert of_keys.ids[h, row].tolist() == expected.tolist()


def test_ranks_count_strictly_better_keys(
    vectors: TokenVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lnattn.attention.vectors._BLOCK", 2 * 3 * 40)  # two pairs a block
    queries, keys = [1, 1, 5, 30, 0], [2, 9, 5, 0, 39]
    table = vectors.queries @ vectors.keys.mT
    found = ranks(vectors, queries, keys)
    for row, (b, a) in enumerate(zip(queries, keys, strict=True)):
        for h in range(3):
            assert found[row, h] == plain.rank(table[h, b].numpy(), a)
    tied = TokenVectors(torch.ones(1, 5, 1), torch.tensor([[[2.0], [3.0], [2.0], [2.0], [1.0]]]))
    assert ranks(tied, [0, 0, 0], [0, 3, 4])[:, 0].tolist() == [2, 2, 5]


def test_diagonal_z_by_hand() -> None:
    scores = torch.tensor(
        [[[9.0, 1, 2], [3, 9, 4], [5, 6, 9]], [[3.5, 1, 2], [3, 3, 4], [5, 6, 4]]]
    )
    off = torch.tensor([1.0, 2, 3, 4, 5, 6])
    expected = [(9 - 3.5) / off.std().item(), 0.0]
    assert diagonal_z(scores).tolist() == pytest.approx(expected)


def test_same_token_z_needs_no_rows(vectors: TokenVectors) -> None:
    table = vectors.queries @ vectors.keys.mT
    mean, spread = table.mean(dim=2), table.std(dim=2, correction=0)
    expected = (table.diagonal(dim1=1, dim2=2) - mean) / spread
    torch.testing.assert_close(same_token_z(vectors), expected, atol=1e-10, rtol=0)


def test_shuffled_keeps_pairs_but_moves_them(vectors: TokenVectors) -> None:
    moved = vectors.shuffled(seed=4)
    before = (vectors.queries * vectors.keys).sum(-1)
    after = (moved.queries * moved.keys).sum(-1)
    torch.testing.assert_close(after.sort().values, before.sort().values)
    assert not torch.equal(moved.queries, vectors.queries)
    assert torch.equal(moved.keys, vectors.shuffled(seed=4).keys)
    wrong_query = vectors.shuffled(seed=4, keys=False)
    assert torch.equal(wrong_query.keys, vectors.keys)
    assert torch.equal(wrong_query.queries, moved.queries)


def test_cosine_vectors() -> None:
    embeddings = Embeddings(torch.tensor([[3.0, 4], [0, 0], [4, -3]]), torch.ones(2, 2))
    found = heat_map(cosine_vectors(embeddings), [0, 1, 2])[0]
    torch.testing.assert_close(found, torch.diag(torch.tensor([1.0, 0, 1])))


def slow_best(vectors: TokenVectors, k: int) -> tuple[list[list[list[int]]], np.ndarray]:
    """Sort every row completely; ties by the smaller id."""
    ids, scores = [], []
    for queries, keys in zip(vectors.queries, vectors.keys, strict=True):
        table = (queries @ keys.T).numpy()
        rows = []
        for row in table:
            order = np.argsort(-row, kind="stable")[:k]
            rows.append([int(a) for a in order])
            scores.append(row[order])
        ids.append(rows)
    return ids, np.array(scores).reshape(len(ids), -1, k)


@settings(max_examples=30, deadline=None)
@given(
    heads=st.integers(1, 2),
    vocab=st.integers(2, 150),
    seed=st.integers(0, 1000),
    ties=st.booleans(),
    block_rows=st.integers(1, 9),
    data=st.data(),
)
def test_streaming_equals_sorting(
    heads: int, vocab: int, seed: int, ties: bool, block_rows: int, data
) -> None:
    generator = torch.Generator().manual_seed(seed)
    both = torch.randn(2, heads, vocab, 3, generator=generator, dtype=torch.float64)
    both = both.round() if ties else both
    vectors = TokenVectors(both[0], both[1])
    k = data.draw(st.integers(1, min(12, vocab - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block_rows * 8 * vocab)
        best = partners(vectors, k=k)
        pairs = topk.strongest_pairs(vectors, k)
        some = data.draw(st.lists(st.integers(0, vocab - 1), max_size=12))
        of_some = partners(vectors, some, k)
    ids, scores = slow_best(vectors, k)
    assert best.ids.tolist() == ids
    np.testing.assert_allclose(best.scores, scores, atol=1e-12)
    np.testing.assert_allclose(of_some.scores, best.scores[:, some], atol=1e-12)
    if ties:  # whole numbers: no rounding that could put equal scores into another order
        assert of_some.ids.tolist() == best.ids[:, some].tolist()
    for h in range(heads):
        table = (vectors.queries[h] @ vectors.keys[h].T).numpy()
        np.fill_diagonal(table, -np.inf)
        order = np.argsort(-table, axis=None, kind="stable")[:k]
        query, key = np.unravel_index(order, table.shape)
        assert pairs.queries[h].tolist() == query.tolist()
        assert pairs.keys[h].tolist() == key.tolist()
        np.testing.assert_allclose(pairs.scores[h], table[query, key], atol=1e-12)


def test_a_same_token_head_stands_out() -> None:
    generator = torch.Generator().manual_seed(0)
    e = torch.randn(200, 16, generator=generator)
    other = torch.randn(200, 16, generator=generator)
    both = TokenVectors(torch.stack([e, e]), torch.stack([e, other]))
    same, different = diagonal_z(heat_map(both, range(100))).tolist()
    assert same > 3
    assert abs(different) < 0.5


#: Ranks of 1,000 pairs at MiniLM's size, in a thread of its own; prints by how many MiB the
#: process grew beyond its peak after the first 30 pairs.
_MEMORY_OF_RANKS = """
import threading, torch
from pathlib import Path
from lnattn.attention.vectors import TokenVectors, ranks
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
vectors = TokenVectors(torch.randn(12, 30522, 16), torch.randn(12, 30522, 16))
ids = torch.randint(30522, (2, 1000))
before = (ranks(vectors, *ids[:, :30]), peak())[1]
thread = threading.Thread(target=ranks, args=(vectors, *ids))
thread.start(); thread.join()
print(peak() - before)
"""


# The largest size of a process (VmHWM) is told by Linux alone.
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux's /proc")
def test_ranks_do_not_let_the_heap_grow() -> None:
    """A block of memory a step, with a small result kept of each, made it grow by a gigabyte."""
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY_OF_RANKS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 250
