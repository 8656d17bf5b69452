"""How much more often deciding words are lost, and by how much one arm leads, on made-up data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.exposure import exposure, lead
from lnattn_book.studies.unselectable_words import Sentiment


def made_up(*extra: float, right=(0.8, 0.7, 0.75), seeds: int = 5) -> Sentiment:
    """400 types, rare or frequent; deciding ones are rare, and rare words are lost more often.

    extra: by arm, by how much more often deciding words are lost than neutral ones as frequent.
    """
    arms, rng = ("full", "no-scaling", "none"), np.random.default_rng(0)
    count = np.where(np.arange(400) < 200, 20, 300)
    decides = rng.random(400) < np.where(count == 20, 0.5, 0.05)
    positive = np.where(decides, count, count // 2)
    occurrences = np.where(count == 20, 5, 30)
    of_word = np.repeat(np.arange(400), occurrences)
    chance = np.where(count == 20, 0.4, 0.1) + np.multiply.outer([0.0, *extra], decides)
    return Sentiment(
        right=rng.random((1, seeds, 4000)) < np.array(right)[:, None, None],
        unselectable=rng.random((3, seeds, len(of_word))) < chance[:, None, of_word],
        by_layer=np.zeros((3, seeds, 4)),
        held_back=np.zeros(3),
        sentence=np.arange(len(of_word)) // 10,
        type=np.where(rng.random(len(of_word)) < 0.02, -1, of_word),
        count=count,
        positive=positive,
        record={"arms": arms, "positive_share": 0.45, "positive_share_of_training": 0.5},
    )


ASKED = {"least": 10, "decides": 3.0, "neutral": 1.0, "draws": 2000}


def test_exposure_finds_what_was_put_in_and_nothing_else():
    found = exposure(made_up(0, 0.1), "none", **ASKED)
    assert found.low < 0.1 < found.high
    assert found.low > 0.05
    assert found.p < 0.001
    assert found.difference == pytest.approx(found.rates[0] - found.rates[1])
    # Deciding words are rare and so lost more often, but not more often than others as rare.
    data = made_up(0, 0)
    nothing = exposure(data, "none", **ASKED)
    assert nothing.low < 0 < nothing.high
    assert nothing.p > 0.05
    known = data.type >= 0
    decides = np.abs(data.weight()) >= 3
    of_words = decides[data.type[known]]
    lost = data.unselectable[2][:, known]
    assert lost[:, of_words].mean() - lost[:, ~of_words].mean() > 0.05


def test_lead_is_paired_by_sentence_and_seed():
    data = made_up(0, 0)
    gain, low, high = lead(data, "full", "none")
    assert gain == pytest.approx(data.right[0].mean() - data.right[2].mean())
    assert low < gain < high
    assert lead(data, "none", "full")[0] == pytest.approx(-gain)
    # Where only few sentences differ, pairing makes the interval narrow.
    near = replace(data, right=np.stack([data.right[0]] * 3))
    near.right[2, :, :10] = ~near.right[0, :, :10]
    _, narrow, wide = lead(near, "full", "none")
    assert wide - narrow < (high - low) / 2
    assert data.majority == 0.55


def test_seeds_that_differ_widen_an_interval_as_students_t_says():
    """Every sentence alike within a seed: nothing but the five seeds is left to draw."""
    with_it = np.array([0, 1, 1, 1, 1])
    data = made_up(0, 0)
    right = np.zeros((3, 5, 4000), dtype=bool)
    right[0] = with_it[:, None] == 1
    mean, low, high = lead(replace(data, right=right), "full", "none")
    between = ttest_rel(with_it, np.zeros(5)).confidence_interval()
    assert (mean, low, high) == pytest.approx((0.8, between.low, between.high))
    # All deciding words are lost in four seeds of five, and no others in any.
    decides = np.abs(data.weight()) >= 3
    of_words = (data.type >= 0) & decides[data.type]
    unselectable = (with_it[:, None] == 1) & of_words
    lost = replace(data, unselectable=np.stack([unselectable] * 3))
    found = exposure(lost, "none", **ASKED)
    assert (found.difference, found.low, found.high) == pytest.approx(
        (0.8, between.low, between.high)
    )


def test_two_arms_hold_together_by_students_t_of_their_seeds():
    """By a table: t of 4 degrees of freedom is 2.776 at 97.5 %, and 3.495 at 98.75 %."""
    both = Interval(np.zeros(2), np.full(2, -2.776), np.full(2, 2.776)).bonferroni(5)
    assert both.high == pytest.approx(3.495, abs=1e-3)


def test_the_interval_over_words_is_the_middle_95_percent_of_the_draws(monkeypatch):
    """Draws even from 0 to 1, and seeds all alike, which add nothing: from 0.025 to 0.975."""
    data = made_up(0, 0.1)
    alike = replace(data, unselectable=np.repeat(data.unselectable[:, :1], 5, axis=1))
    monkeypatch.setattr(
        "lnattn_book.studies.exposure._Bin.resampled", lambda _, draws, __: np.linspace(0, 1, draws)
    )
    measured = exposure(alike, "none", **ASKED)
    assert measured.difference > 0.025
    assert [measured.low, measured.high] == pytest.approx([0.025, 0.975], abs=1e-9)
