"""The functions that are written out for the compiler, against numpy's in double precision."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.numerics import vectorised


@numba.njit(fastmath=vectorised.FAST)
def each_exp2(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = vectorised.exp2(values[i])
    return out


@numba.njit(fastmath=vectorised.FAST)
def each_log(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = vectorised.log(values[i])
    return out


@numba.njit
def doubled(values: np.ndarray) -> np.ndarray:
    vectorised.widest()
    return 2 * values


@numba.njit
def rows(number: int, columns: int, like: np.ndarray) -> np.ndarray:
    return vectorised.on_cache_lines(number, columns, like)


def test_the_widest_registers_are_asked_for() -> None:
    assert list(doubled(np.arange(3.0))) == [0, 2, 4]
    (code,) = doubled.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in code


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_rows_on_cache_lines(dtype: type) -> None:
    for number, columns in [(1, 1), (3, 7), (9, 272)]:
        found = rows(number, columns, np.ones(2, dtype))
        assert found.dtype == dtype
        assert found.shape == (number, columns)
        assert found.ctypes.data % 64 == 0
        assert not found.any()


def test_exp2_keeps_single_precision_and_ends_at_the_smallest_number() -> None:
    x = np.concatenate([np.linspace(-80, 127.9, 300_001), [-np.inf, -1e30, -81]])
    x = x.astype(np.float32)
    exact = np.exp2(np.maximum(x, -80).astype(float))
    np.testing.assert_allclose(each_exp2(x), exact, rtol=3e-7)


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
