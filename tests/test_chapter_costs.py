"""The numbers of the page on costs, beside formulas written out."""

from __future__ import annotations

import pytest

from lnattn_book.chapters import costs as chapter


def test_operations_are_counted_by_part():
    """Queries: N rows of width D times D columns, two operations each."""
    assert chapter.counted_operations(["W_Q"], N=4, D=8, H=2) == 2 * 4 * 8 * 8
    assert chapter.counted_operations(["scores"], N=4, D=8, H=2) == 2 * 4 * 4 * 8


def test_the_exponents_are_those_of_the_formulas():
    table = chapter.exponents(
        {"scores": ["scores"], "FFN": ["W_in"]}, {"N": (8, 16), "D": (12, 24)}
    )
    assert table.loc["scores"].tolist() == pytest.approx([2, 1])
    assert table.loc["FFN"].tolist() == pytest.approx([1, 2])


def test_some_bytes_are_moved_beside_the_products():
    assert 0 < chapter.share_beside_products(16, 32, 4, 128) < 1


def test_scores_grow_with_the_heads_and_what_they_read_does_not():
    """Read: queries and keys, 2 N D numbers; written: H N² scores."""
    N, D, H = 64, 96, 6
    expected = (2 * N * D + 2 * H * N * N) / (2 * N * D + H * N * N)
    assert chapter.bytes_with_twice_the_heads(N, D, H, 4 * D) == pytest.approx(expected)


def test_what_goes_with_the_encoder():
    """Width 1, FFN of 1: an attention has 4 + 4, an FFN 2 + 2, a norm 2 parameters."""
    row = chapter.removed_parameters({"tiny": (1, 1)}).loc["tiny"]
    alone, with_cross = 8 + 4 + 2 * 2, 2 * 8 + 4 + 3 * 2
    assert row["of the layers"] == pytest.approx(with_cross / (alone + with_cross))
    assert row["with embeddings"] == pytest.approx(
        6 * with_cross / (6 * (alone + with_cross) + 37_000)
    )
