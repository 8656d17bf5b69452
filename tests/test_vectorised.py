"""The functions that are written out for the compiler, against numpy's in double precision."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.numerics import vectorised


@numba.njit(fastmath=vectorised.FAST)
def each_exp(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = vectorised.exp(values[i])
    return out


@numba.njit(fastmath=vectorised.FAST)
def each_log(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = vectorised.log(values[i])
    return out


def test_exp_in_a_vectorised_loop_keeps_single_precision() -> None:
    """In a loop with the licence to reorder sums, where the compiler could undo the rounding."""
    x = np.linspace(-87, 69, 300_001, dtype=np.float32)
    np.testing.assert_allclose(each_exp(x), np.exp(x.astype(float)), rtol=3e-7)


def test_exp_is_cut_off_and_stays_finite() -> None:
    x = np.array([-np.inf, -1e30, -90, 0, 80, 1e30, np.inf], dtype=np.float32)
    cut = np.exp(np.clip(x.astype(float), -87, 69))
    np.testing.assert_allclose(each_exp(x), cut, rtol=3e-7)


def test_log_in_a_vectorised_loop_keeps_single_precision() -> None:
    x = np.geomspace(1, 3e38, 100_001, dtype=np.float32)
    np.testing.assert_allclose(each_log(x), np.log(x.astype(float)), rtol=3e-7, atol=1e-7)


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=9))
def test_integers_have_the_order_of_the_numbers(numbers: list[float]) -> None:
    x = np.array(numbers, dtype=np.float32)
    ordered = [vectorised.as_ordered(number) for number in x]
    assert x[int(np.argmax(ordered))] == x.max()
    assert [np.float32(vectorised.from_ordered(number)) for number in ordered] == list(x)
