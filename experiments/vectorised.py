"""Small functions of one number that the compiler turns into instructions on many at once.

The exponential of the C library is a call, and the largest of floats needs a special case for NaN:
either keeps a loop from being vectorised. These are written out in operations that are not.
`no_type_check` keeps the tests' shape checker away from the functions that numba compiles.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload

#: Licence to reorder sums and to fuse multiplications; infinities keep their meaning.
FAST = {"reassoc", "contract", "nsz", "nnan", "arcp"}

_F = np.float32
#: 1.5 · 2²³: the middle of the numbers between which floats are the whole numbers.
_WHOLE = np.float32(12582912.0)
_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)
#: The bits of √½ in single precision.
_SQRT_HALF = np.int32(0x3F3504F3)


@intrinsic
@no_type_check
def widest(_):
    """Let the loops of the calling function use registers of 512 bits where the processor has them.

    The compiler keeps to half of that on many processors, because of the first ones, which slowed
    down. The licence is a line in the calling function; what it calls needs its own.
    """

    def attribute(context, builder, _signature, _arguments):
        # llvmlite admits only the attributes it knows by name, and passes the others on.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), attribute


@numba.njit(inline="always")
@no_type_check
def on_cache_lines(rows, columns, like):
    """Zeros [row, column] of the dtype of `like` that begin at a cache line of 64 bytes.

    A wide register that is filled from two lines at once takes twice as long.
    """
    room = np.zeros(rows * columns + 64 // like.itemsize, like.dtype)
    first = -room.ctypes.data % 64 // like.itemsize
    return room[first : first + rows * columns].reshape(rows, columns)


@numba.njit(fastmath={"contract", "nsz", "nnan"})
@no_type_check
def exp2(x):
    """2^x in single precision for x < 128 (relative error about 2e-7), in a form that vectorises.

    Compiled without the licence to reorder, whatever the caller has, so that adding and subtracting
    1.5 · 2²³ rounds; 2^k is added to the exponent bits. The polynomial is the minimax one of 2^r
    for |r| ≤ ½. Below −80 the result is 2^−80: next to a largest power of 1 that is nothing, and
    its products with small gradients are not subnormal, which would take a hundred times as long.
    """
    x = x if x > _F(-80.0) else _F(-80.0)
    shifted = np.float32(x + _WHOLE)
    r = x - np.float32(shifted - _WHOLE)
    series = _F(0.00132764719)
    series = series * r + _F(0.00967554150)
    series = series * r + _F(0.0555071327)
    series = series * r + _F(0.240221197)
    series = series * r + _F(0.693146967)
    series = np.float32(series * r + _F(1.0000000717))
    power = np.int32(shifted.view(np.int32) << np.int32(23))
    return np.int32(series.view(np.int32) + power).view(np.float32)


@numba.njit(fastmath=FAST, inline="always")
@no_type_check
def log(x):
    """log x in single precision for normal x > 0, written so that it vectorises.

    x = m · 2^k with m in [√½, √2); log m = 2 artanh s with s = (m − 1)/(m + 1), |s| < 0.172.
    """
    # Integers of two 32-bit numbers become 64-bit ones in numba, hence the many conversions.
    bits = np.int32(np.float32(x).view(np.int32) - _SQRT_HALF)
    k = np.int32(bits >> np.int32(23))
    m = np.int32(np.int32(bits & np.int32(0x7FFFFF)) + _SQRT_HALF).view(np.float32)
    s = (m - _F(1)) / (m + _F(1))
    t = s * s
    series = _F(2 / 9)
    series = series * t + _F(2 / 7)
    series = series * t + _F(2 / 5)
    series = series * t + _F(2 / 3)
    series = series * t + _F(2)
    return _F(k) * _F(0.6931471805599453) + s * series


@no_type_check
def exp2_any(x):
    """2^x in the precision of x: for single precision `exp2`, for double the C library's."""
    return math.exp2(x)


@overload(exp2_any, inline="always")
@no_type_check
def _exp2_for(x):
    if x == types.float32:
        return lambda x: exp2(x)
    return lambda x: math.exp2(x)


@no_type_check
def log_any(x):
    """log x in the precision of x: for single precision `log`, for double the C library's."""
    return math.log(x)


@overload(log_any, inline="always")
@no_type_check
def _log_for(x):
    if x == types.float32:
        return lambda x: log(x)
    return lambda x: math.log(x)


@numba.njit(inline="always")
@no_type_check
def as_ordered(x):
    """Map a number to an integer of the same order: largest integers are found many at a time.

    (The largest of floats is not, because the compiler minds NaN.) Below zero the bits of a float
    grow with its size, so all but the sign are turned over.
    """
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & _ALL_BUT_SIGN))


@numba.njit(inline="always")
@no_type_check
def from_ordered(bits):
    """The number that `as_ordered` maps to these bits."""
    bits = np.int32(bits)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & _ALL_BUT_SIGN)).view(np.float32)
