"""e^x for compiled loops that take many numbers at a time, in single and in double precision.

The library's e^x cannot be compiled into the loop around it, which then takes one at a time. Here
x = k ln 2 + r with a whole k and `|r| ≤ ln 2 / 2`. The bits of 2^k are written down, and what
depends on r is a short series. The logarithm is made the same way.

What numba keeps on disk of a loop does not notice a change here: whoever changes this file deletes
the `__pycache__` of the modules that import it.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from lnattn.compiled import compiled

_LN_2 = np.float32(math.log(2))
_PER_LN_2 = np.float32(1 / math.log(2))
#: ln 2 in two parts, the first of so few digits that k times it is exact.
_LN_2_HIGH = 0.693147180369123816490
_LN_2_LOW = 1.90821492927058770002e-10
_ONE = np.float32(1)
#: The bits of √½, in float32.
_BITS_OF_ROOT = np.float32(math.sqrt(0.5)).view(np.int32)
#: The last term of the series, 1/8!.
_LAST = np.float32(1 / math.factorial(8))


@compiled(error_model="numpy")
@no_type_check
def exponential(x):
    """e^x of a float32 below 88, to a few units in its last digit; 10^−38 for all below −87."""
    x = max(x, np.float32(-87))
    k = np.floor(x * _PER_LN_2 + np.float32(0.5))
    r = x - k * _LN_2
    return _power_of_two(k) * (_ONE + r + _tail(r))


@compiled(error_model="numpy")
@no_type_check
def exponential_double(x):
    """e^x of a float64 below 709, to a few units in its last digit; 10^−307 for all below −708."""
    x = max(x, -708.0)
    k = np.floor(x * (1 / math.log(2)) + 0.5)
    r = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
    series = 1.0
    for i in range(13, 0, -1):  # 1 + r (1 + r/2 (1 + r/3 (… )))
        series = 1.0 + r * (1 / i) * series
    return np.int64((np.int64(k) + 1023) << 52).view(np.float64) * series


@compiled(error_model="numpy")
@no_type_check
def exponential_excess(x):
    """e^x − 1 − x of a float32 below 88, which is ≥ 0, with the digits of a tiny one.

    = 2^k (e^r − 1 − r) + (2^k − 1)(1 + r) − k ln 2, where nothing cancels for k = 0; below −87,
    e^x no longer matters, and −x does.
    """
    bounded = max(x, np.float32(-87))
    k = np.floor(bounded * _PER_LN_2 + np.float32(0.5))
    r = bounded - k * _LN_2
    power = _power_of_two(k)
    return power * _tail(r) + ((power - _ONE) * (_ONE + r) - k * _LN_2) + (bounded - x)


@compiled(error_model="numpy")
@no_type_check
def logarithm(x):
    """ln x of a normal float32 above 0, to a few units in its last digit.

    With x = 2^k m and m between √½ and √2: k ln 2 + 2 (t + t³/3 + t⁵/5 + …), t = (m − 1)/(m + 1).
    """
    bits = np.float32(x).view(np.int32)
    k = (bits - _BITS_OF_ROOT) >> np.int32(23)
    m = np.int32(bits - (k << np.int32(23))).view(np.float32)
    t = (m - _ONE) / (m + _ONE)
    series = np.float32(1 / 9)
    for i in range(7, 1, -2):
        series = np.float32(1 / i) + series * t * t
    return np.float32(k) * _LN_2 + np.float32(2) * (t + series * t * t * t)


@compiled(error_model="numpy")
@no_type_check
def _tail(r):
    """e^r − 1 − r = r²/2! + … + r^8/8!, for small r."""
    term = series = _LAST
    for i in range(8, 2, -1):
        term *= np.float32(i)
        series = term + series * r
    return series * r * r


@compiled(error_model="numpy")
@no_type_check
def _power_of_two(k):
    """2^k for a whole number k in float32, −126 … 127."""
    return np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
