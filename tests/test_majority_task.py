"""Count vectors of the majority task against brute enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import naming

from lnattn.errors import ShapeError
from lnattn_book.studies.majority.task import (
    AUTHORS,
    eligible,
    majority_data,
    shuffled_partitions,
    uniform_partitions,
)


def all_partitions(total: int, parts: int) -> set[tuple[int, ...]]:
    """Every partition into at most `parts` parts, by brute force."""
    rows = product(range(total + 1), repeat=parts)
    return {tuple(sorted(row, reverse=True)) for row in rows if sum(row) == total}


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 1000))
def test_draws_are_partitions(total, parts, seed):
    drawn = uniform_partitions(total, parts, 40, np.random.default_rng(seed))
    assert {tuple(row) for row in drawn.tolist()} <= all_partitions(total, parts)


def test_every_partition_is_equally_likely():
    """Chi-square against uniform over all 34 partitions of 11 into at most four parts."""
    cells = sorted(all_partitions(11, 4))
    draws = 40_000
    drawn = uniform_partitions(11, 4, draws, np.random.default_rng(0))
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    assert [tuple(row) for row in found.tolist()] == cells
    expected = draws / len(cells)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(cells) - 1
    # Five standard deviations of a chi-square variable; an unfair walk gives thousands.
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(2, 4), st.integers(1, 5))
def test_number_of_eligible_vectors(length, classes, margin):
    number = 0
    for row in product(range(length + 1), repeat=classes):
        first, second, *_ = sorted(row, reverse=True)
        number += sum(row) == length and second > 0 and first - second >= margin
    assert eligible(length, classes, margin) == number


@pytest.mark.parametrize("scheme", ["uniform", AUTHORS])
def test_data_are_eligible_distinct_and_split(scheme):
    data = majority_data(2000, length=30, classes=8, margin=4, scheme=scheme, seed=3)
    assert (data.train.shape, data.test.shape) == ((1600, 8), (400, 8))
    both = np.concatenate([data.train, data.test])
    assert (both.sum(axis=1) == 30).all()
    ordered = np.sort(both, axis=1).astype(int)
    assert (ordered[:, -1] - ordered[:, -2] >= 4).all()
    assert (ordered[:, -2] > 0).all()
    assert len(np.unique(both, axis=0)) == 2000
    # No class is favoured: the label of a class has a share of 1/8 with standard error 0.0074.
    share = np.bincount(both.argmax(axis=1), minlength=8) / 2000
    assert np.abs(share - 1 / 8).max() < 0.05


def test_uniform_data_have_the_shares_that_counting_gives():
    """The mean of the largest count is that over all eligible partitions."""
    data = majority_data(800, length=20, classes=5, margin=3, seed=0)
    ordered = np.sort(np.concatenate([data.train, data.test]), axis=1)[:, ::-1]
    partitions = [p for p in all_partitions(17, 5) if p[1] > 0]
    expected = np.mean([p[0] + 3 for p in partitions])
    # Five standard errors; dropping repetitions takes a little from partitions with equal parts.
    assert ordered[:, 0].mean() == pytest.approx(expected, abs=5 * ordered[:, 0].std() / 800**0.5)


def test_the_authors_way_depends_on_the_seed():
    """Stopped early, a depth-first walk sees one corner: how many classes occur depends on it."""

    def classes_a_sequence(scheme: str, seed: int) -> float:
        return float((majority_data(2000, scheme=scheme, seed=seed).train > 0).sum(axis=1).mean())

    theirs = [classes_a_sequence(AUTHORS, seed) for seed in range(5)]
    ours = [classes_a_sequence("uniform", seed) for seed in range(5)]
    assert np.ptp(theirs) > 5 * np.ptp(ours) > 0
    assert max(theirs) < min(ours) - 3


@pytest.mark.parametrize("scheme", ["uniform", AUTHORS])
def test_a_lead_of_exactly_the_margin_occurs(scheme):
    ordered = np.sort(majority_data(2000, scheme=scheme, seed=1).train, axis=1).astype(int)
    assert (ordered[:, -1] - ordered[:, -2]).min() == 6


def test_shuffled_enumeration_visits_every_partition_once():
    lists = list(shuffled_partitions(9, 4, np.random.default_rng(0)))
    proper = [tuple(sorted(p, reverse=True)) for p in lists if p == sorted(p)]
    padded = [p + (0,) * (4 - len(p)) for p in proper]
    assert len(padded) == len(set(padded))
    assert set(padded) == all_partitions(9, 4)


def test_a_single_class_has_no_majority():
    with pytest.raises(ShapeError, match=naming("classes", "≥ 2", "not 1")):
        majority_data(2, length=5, classes=1, margin=1)


@pytest.mark.parametrize("scheme", ["uniform", AUTHORS])
def test_no_sequence_is_of_one_class(scheme):
    """Of 28 vectors of length 6 over three classes 4 have no lead and 3 one class: 21 are left."""
    assert eligible(6, 3, 1) == 28 - 4 - 3
    for seed in range(20):
        data = majority_data(10, length=6, classes=3, margin=1, scheme=scheme, seed=seed)
        rows = np.concatenate([data.train, data.test])
        assert ((rows > 0).sum(axis=1) >= 2).all()


def test_how_many_examples_can_be_had_is_said():
    """Of 4 tokens in 2 classes a lead of 2 have (3, 1) and (1, 3); a half of them can be asked."""
    with pytest.raises(ShapeError, match=naming("2 count vectors", "1 examples")):
        majority_data(3, length=4, classes=2, margin=2)
