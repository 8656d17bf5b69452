"""e^x of the compiled loops of contributions, beside NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from lnattn.contribution.kl import _exponential as exponential
from lnattn.contribution.kl import _exponential_excess as exponential_excess

SIZES = np.logspace(-7, np.log10(29.9), 300)


@pytest.mark.parametrize("sign", [-1, 1])
def test_exponential(sign):
    """To a few units in the last digit, and what the rounding of k ln 2 adds for large numbers."""
    for x in (sign * SIZES).astype(np.float32):
        assert exponential(x) == pytest.approx(np.exp(float(x)), rel=2e-7 * (1 + abs(float(x))))


def test_exponential_of_numbers_out_of_range():
    assert 0 < exponential(np.float32(-1e4)) < 1e-37
    assert exponential(np.float32(-np.inf)) == exponential(np.float32(-1e4))
    assert exponential(np.float32(0)) == 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_excess_keeps_its_digits(sign):
    """By the series, summed in double precision where subtraction would cancel."""
    for x in (sign * SIZES).astype(np.float32):
        exact = np.expm1(float(x)) - float(x)
        if abs(x) < 0.01:
            exact = sum(float(x) ** i / factorial for i, factorial in ((2, 2), (3, 6), (4, 24)))
        assert exponential_excess(x) == pytest.approx(exact, rel=3e-6)
    assert exponential_excess(np.float32(0)) == 0


def test_excess_of_very_negative_numbers_is_a_line():
    for x in (-80, -87, -93.5, -1e4, -1e30):
        assert exponential_excess(np.float32(x)) == pytest.approx(-1 - x, rel=1e-6)
