"""The processor's instructions that numba has no name for, against Python's own arithmetic."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba.core.errors import TypingError

from lnattn.numerics.instructions import AT_ONCE, fetch_ahead, lowest_bit, negatives


@numba.njit
def doubled(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for i in range(len(values)):
        fetch_ahead(values, i + 16)  # towards the end: of what is not there
        out[i] = 2 * values[i]
    return out


@numba.njit
def signs(values: np.ndarray, place: int) -> int:
    return negatives(values, place)


@numba.njit
def lowest(bits: int) -> int:
    return lowest_bit(bits)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_fetching_ahead_changes_nothing(dtype: type) -> None:
    """Also beyond the end of the array; and what is compiled does ask for the line."""
    values = np.arange(5000, dtype=dtype)
    np.testing.assert_array_equal(doubled(values), 2 * values)
    assert "llvm.prefetch" in doubled.inspect_llvm(doubled.signatures[-1])


@given(hnp.arrays(np.int32, AT_ONCE + 9), st.integers(0, 9))
def test_signs_of_sixty_four_numbers(values: np.ndarray, place: int) -> None:
    expected = sum(int(values[place + j] < 0) << j for j in range(AT_ONCE))
    assert signs(values, place) == expected


@given(st.integers(1, 2**64 - 1))
def test_lowest_bit(bits: int) -> None:
    assert lowest(np.uint64(bits)) == (bits & -bits).bit_length() - 1


def test_numbers_of_another_kind_are_refused_when_compiled() -> None:
    with pytest.raises(TypingError):
        signs(np.zeros(AT_ONCE), 0)
    with pytest.raises(TypingError):
        lowest(np.int64(4))
