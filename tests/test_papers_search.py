"""The papers' bounded search, and random keys over a grid, against slow and obvious versions."""

from __future__ import annotations

import numpy as np
import pytest

from lnattn.selectability.decide import selectability
from lnattn_book.studies import papers_search, random_keys
from lnattn_book.studies.papers_search import bounded_search
from lnattn_book.studies.random_keys import random_grid, standardised


def normal(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_on_keys_of_full_rank_the_bounded_search_agrees_with_the_geometry(scale: float):
    keys = normal(80, 4, 1) * scale
    found, exact = bounded_search(keys), selectability(keys)
    np.testing.assert_array_equal(found.selectable, exact.selectable)
    assert found.genuine.sum() == found.selectable.sum()
    assert found.rank == 4
    assert found.unselectable == exact.unselectable


def test_the_box_hides_corners_of_small_keys():
    """Keys of size 1e-9: every margin in the box is below the smallest radius."""
    keys = normal(40, 3, 3)
    tiny = keys * 1e-9
    assert selectability(tiny).unselectable == selectability(keys).unselectable
    # A reflection that wins needs no radius, so the search without it shows the box alone.
    strict = bounded_search(tiny, patience=0)
    assert strict.unselectable > selectability(tiny).unselectable


def test_rounding_of_projected_keys_makes_unselectable_ones_look_selectable():
    keys = normal(150, 6, 4).astype(np.float32)
    keys -= keys.mean(axis=1, keepdims=True)
    exact, found = selectability(keys), bounded_search(keys)
    assert exact.rank == 5
    assert found.rank == 6  # the rounding counts as a dimension
    assert found.unselectable < exact.unselectable
    assert not (found.selectable < exact.selectable).any()
    # In float64 the projection is exact to 1e-16, too little to be used.
    true = keys.astype(np.float64)
    true -= true.mean(axis=1, keepdims=True)
    assert bounded_search(true).unselectable == pytest.approx(selectability(true).unselectable)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_grid_counts_what_the_study_finds_set_by_set(layer_norm: bool):
    counts, widths, draws = (1, 9, 40), (3, 4, 7), 2
    found = random_grid(counts, widths, draws, layer_norm=layer_norm, seed=3)
    for column, d in enumerate(widths):
        for row, n in enumerate(counts):
            sets = np.random.default_rng([3, n, d]).normal(size=(draws, n, d))
            for draw in range(draws):
                keys = sets[draw]
                if layer_norm:
                    keys = keys - keys.mean(1, keepdims=True)
                    keys = keys / keys.std(1, keepdims=True)
                lost = (~selectability(keys).selectable).sum()
                assert found.unselectable[row, column, draw] == lost
    np.testing.assert_allclose(
        found.fraction,
        [[s.mean() / n for s in r] for r, n in zip(found.unselectable, counts, strict=True)],
    )
    np.testing.assert_allclose(
        found.probability, [[(s > 0).mean() for s in r] for r in found.unselectable]
    )
    assert (found.unselectable.sum() > 0) != layer_norm


def test_sets_that_the_walk_leaves_are_decided_by_the_study(monkeypatch):
    wanted = random_grid((20,), (3,), 4, seed=1)
    assert wanted.by_program == 0
    monkeypatch.setattr(
        random_keys, "_unselectable_in_sets", lambda keys, *_: np.full(len(keys), -1)
    )
    found = random_grid((20,), (3,), 4, seed=1)
    assert found.by_program == 4
    np.testing.assert_array_equal(found.unselectable, wanted.unselectable)


def test_standardised_keys_are_layer_normed_ones_in_other_coordinates():
    keys = normal(9, 5, 6)
    normed = keys - keys.mean(1, keepdims=True)
    normed /= normed.std(1, keepdims=True)
    ours = standardised(keys)
    assert ours.shape == (9, 4)
    np.testing.assert_allclose(ours @ ours.T, normed @ normed.T, atol=1e-12)


def test_a_grid_says_what_it_is_of():
    """Two draws of a triangle in the plane: all three are corners, whatever the seed."""
    found = random_grid((3,), (2,), 2, seed=8)
    assert (found.counts.tolist(), found.widths.tolist(), found.seed) == ([3], [2], 8)
    assert not found.layer_norm
    assert found.unselectable.tolist() == [[[0, 0]]]
    normed = random_grid((5,), (3,), 2, layer_norm=True, seed=8)
    assert normed.layer_norm
    assert normed.unselectable.tolist() == [[[0, 0]]]


def test_a_search_keeps_its_queries_and_counts_its_programs(monkeypatch):
    """Without reflections every key that does not win in its own direction needs a program."""
    keys = normal(30, 2, 5)
    found = bounded_search(keys, patience=0)
    own = (keys @ keys.T).argmax(axis=1) == np.arange(30)
    assert found.programs == (~own).sum()
    assert found.unsolved == 0
    scores = keys @ found.query.T
    assert (scores.argmax(axis=0) == np.arange(30))[found.selectable].all()
    assert not found.query[~found.selectable].any()
    assert np.abs(found.query).max() <= 100
    monkeypatch.setattr(papers_search, "_centre", lambda points, i: (4, None))
    lost = bounded_search(keys, patience=0)
    assert lost.unsolved == lost.programs == found.programs
    np.testing.assert_array_equal(lost.selectable, own)


def test_fewer_keys_than_a_simplex_has_corners_are_not_searched():
    found = bounded_search(normal(4, 6, 2), patience=0)
    assert found.selectable.all()
    assert found.programs == 0


def test_a_query_is_genuine_where_its_key_has_the_highest_score(monkeypatch):
    """Of a square and its centre: programs that answer (1, 0) to all are right about none of it."""
    keys = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]])
    monkeypatch.setattr(papers_search, "_centre", lambda points, i: (0, np.array([-1.0, 2.0])))
    found = bounded_search(keys, patience=0)
    # The corners win in their own directions; (−1, 2) scores key 2 highest, and not key 4.
    assert found.selectable.all()
    assert found.genuine.tolist() == [True, True, True, True, False]
    assert (found.programs, found.unsolved, found.unselectable) == (1, 0, 0.0)
    assert found.query[4].tolist() == [-1.0, 2.0]
