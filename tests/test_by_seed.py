"""Answers over seeds, on made-up studies, with numbers by hand and by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from made_up import layers_alone
from made_up import layers_that_find as layers
from scipy.stats import t as student

from lnattn_book.claims import by_seed
from lnattn_book.claims.by_seed import over_seeds
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART


@pytest.fixture(autouse=True)
def _own_thresholds_alone(monkeypatch) -> None:
    """Verdicts by other thresholds, which take the time of dozens, are not asked for."""
    monkeypatch.setattr("lnattn_book.claims.rules._stands", lambda *_: None)


def test_intervals_are_students_and_hold_together() -> None:
    values = np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
    interval = over_seeds(values)
    half = student.ppf(1 - 0.025 / 2, 2) * values.std(axis=0, ddof=1) / 3**0.5
    np.testing.assert_allclose(interval.value, values.mean(axis=0))
    np.testing.assert_allclose(interval.high - interval.value, half)
    alone = over_seeds(values[:, 0], level=0.975)
    expected = student.interval(0.975, 2, values[:, 0].mean(), values[:, 0].std(ddof=1) / 3**0.5)
    np.testing.assert_allclose([alone.low[0], alone.high[0]], expected)


def test_layers_above_over_seeds() -> None:
    """Excess over the first layer, by hand; three seeds in which layer 2 joins."""
    found = [layers(0.05, 0.05, share) for share in (0.40, 0.42, 0.44)]
    record = by_seed.joins_above(found, model="nobody")
    assert record.verdict == HOLDS
    assert record.estimate == pytest.approx(0.42 - 0.05)
    expected = student.ppf(1 - 0.025 / 2, 2) * 0.02 / 3**0.5
    assert record.interval[1] - record.estimate == pytest.approx(expected)
    below = [layers(0.5 + n, 0.2, 0.05) for n in (0, 0.01, 0.02)]
    assert by_seed.joins_above(below, model="nobody").verdict == HOLDS_IN_PART
    shares = [layers_alone(1.0, 0.9 + n, 0.7) for n in (0, 0.01, 0.02)]
    assert by_seed.alone(shares, model="nobody").verdict == HOLDS
    low = [layers_alone(1.0, 0.3 + n, 0.1) for n in (0, 0.01, 0.02)]
    record = by_seed.alone(low, model="nobody")
    assert record.verdict == FAILS
    assert record.estimate == pytest.approx(0.1)
