"""e^x for compiled loops that take many numbers at a time, in single precision.

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
