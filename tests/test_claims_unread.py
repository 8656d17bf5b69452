"""The rules on what nobody reads, on made-up results: effects of known size, and none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lnattn.errors import ResultError
from lnattn_book.claims import unread
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

MODEL = "made up"


def written(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"along": values, "low": 0.8})


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.1, 0.3, 0.79), HOLDS),
        ((0.1, 0.3, 0.81), HOLDS_IN_PART),
        ((0.1, 0.9, 1.0, 0.2), FAILS),  # one half is not more than half
        ((1.0, 1.1), FAILS),
    ],
)
def test_models_that_centre(values, verdict):
    found = unread.n7(written(*values), model=MODEL)
    assert found.verdict == verdict
    assert found.values["least"] == min(values)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.0, 0.9, 1.2), HOLDS),
        ((0.7,) + (1.1,) * 9, HOLDS),  # one matrix in ten may lie below
        ((0.7, 0.7) + (1.1,) * 8, HOLDS_IN_PART),
        ((1.6, 1.7), HOLDS_IN_PART),  # far above chance
        ((0.1, 0.2), FAILS),
    ],
)
def test_models_with_rmsnorm(values, verdict):
    assert unread.n8(written(*values), model=MODEL).verdict == verdict


def test_two_layers_of_gpt2():
    top = np.full(4, 1.2)
    for along, verdict in (
        ([0.1, 1.3, 1.3, 0.1], HOLDS),
        ([1.3, 1.3, 1.1, 1.3], HOLDS_IN_PART),
        ([1.3, 1.1, 1.1, 1.3], FAILS),
    ):
        assert unread.n9(np.array(along), top, model="gpt2").verdict == verdict


def test_unseen_or_given_up():
    def verdict(along_n, along_1, seeds=5):
        noise = np.exp(np.random.default_rng(0).normal(0, 0.05, seeds))
        made = [{"SGD": a * noise, "Adam": b * noise} for a, b in (along_n, along_1)]
        return unread.n10(*made, model=MODEL).verdict

    assert verdict((0.1, 0.3), (1, 1)) == HOLDS
    assert verdict((0.1, 0.6), (1, 1)) == HOLDS_IN_PART
    assert verdict((1, 1), (0.1, 0.3)) == FAILS  # 1 is avoided whatever the norm removes
    assert verdict((0.1, 0.3), (0.1, 0.3)) == FAILS
    assert verdict((0.1, 0.3), (1, 1), seeds=4) == UNDECIDED


def test_adams_first_step():
    spread = np.random.default_rng(0).normal(0, 0.1, 60)
    for mean, verdict in ((0.36, HOLDS), (0.6, HOLDS_IN_PART), (0.0, FAILS), (1.0, FAILS)):
        found = unread.n11(spread - spread.mean() + mean, model=MODEL)
        assert found.verdict == verdict
    assert unread.n11(np.full(49, 0.36), model=MODEL).verdict == UNDECIDED


def test_nothing_gives_no_verdict():
    with pytest.raises(ResultError):
        unread.n7(written(), model=MODEL)
    with pytest.raises(ResultError):
        unread.geometric(np.array([]))


def test_intervals_are_those_of_the_mean_over_seeds():
    values = np.random.default_rng(1).normal(2, 1, 400)
    mean, low, high = unread.bootstrapped(values)
    half = 1.96 * values.std() / 20
    np.testing.assert_allclose([low, high], [mean - half, mean + half], atol=0.02)
    np.testing.assert_allclose(unread.geometric(np.exp(values)), np.exp([mean, low, high]))


@pytest.mark.parametrize(
    ("with_sigma", "without", "verdict"),
    [
        ((0.75, 0.62, 0.52), (0.76, 0.62, 0.47), HOLDS),  # the last head predicts nothing
        ((0.75, 0.62, 0.51), (0.76, 0.66, 0.51), HOLDS_IN_PART),
        ((0.75, 0.62, 0.51), (0.70, 0.62, 0.51), FAILS),
        ((0.51, 0.49, 0.52), (0.50, 0.51, 0.53), NOT_SEEN),
    ],
)
def test_scaling_is_missed_by_heads_that_predict(with_sigma, without, verdict):
    found = unread.n12(np.array(with_sigma), np.array(without), model=MODEL)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("share", "peak", "verdict"),
    [((0.9, 0.1), (1, 7), HOLDS), ((0.31, 0.9), (1, 7), FAILS), ((0.9, 0.9), (2, 7), NOT_SEEN)],
)
def test_phases_that_meet_at_one(share, peak, verdict):
    null = np.random.default_rng(0).normal(0.3, 0.05, size=(1000, 2))
    assert unread.d8(np.array(share), np.array(peak), null, model=MODEL).verdict == verdict
