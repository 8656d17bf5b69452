"""Numbers cut into buckets by their size: the way to count them, and to sort a few of them.

A number finds its bucket by one multiplication, which keeps the order: whoever is in a lower bucket
is less. `no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

#: With more values than this in a cell, they are sorted by comparisons.
_CROWDED = 64
#: A range narrower than this is not divided by.
_NARROW = 1e-30


@nb.njit(cache=True, nogil=True)
@no_type_check
def factor_for(low, high, parts):
    """By what to multiply numbers so that the range from low to high is cut into equal parts.

    Where it is too narrow to divide by, any factor serves: one part takes all of it.
    """
    spread = high - low
    return parts / spread if spread > _NARROW else parts / parts


# Numbers are finite: told so, the compiler makes vectors of the two comparisons.
@nb.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
@no_type_check
def find_buckets(numbers, low, per_unit, last, buckets):
    """Fill buckets [n]: of each number, 0 below `low`, `last` at most; rises with the number.

    numbers: [n] float32 or float64, finite; per_unit: from `factor_for`; last: below 65,535, of the
    numbers' dtype; buckets: uint16.
    """
    zero, one = numbers.dtype.type(0), numbers.dtype.type(1)
    for v in range(len(numbers)):
        place = (numbers[v] - low) * per_unit + one
        place = place if place > zero else zero
        place = place if place < last else last
        buckets[v] = np.uint16(nb.int32(place))


@nb.njit(cache=True, nogil=True)
@no_type_check
def sort(raw, room):
    """What is in raw, ascending, and the place of each in raw: `values` and `order` of `room`.

    Each value goes to one of n cells by its size, as in counting, and then past the few before it
    that are greater. Where one cell holds many, as when one value is far off, by comparisons.
    """
    values, order, cells, heads = room
    n, real = len(raw), raw.dtype.type
    low = high = raw[0]
    for i in range(n):
        low, high = min(low, raw[i]), max(high, raw[i])
    last = real(n)
    per_value = factor_for(low, high, last)
    heads[: n + 2] = 0
    fullest = nb.int32(0)
    for i in range(n):
        place = (raw[i] - low) * per_value
        cell = nb.int32(place if place < last else last)
        cells[i] = cell
        count = heads[cell + 1] + nb.int32(1)
        heads[cell + 1] = count
        fullest = max(fullest, count)
    if fullest > _CROWDED:
        order[:n] = np.argsort(raw)
        for i in range(n):
            values[i] = raw[order[i]]
        return
    for cell in range(n):
        heads[cell + 1] += heads[cell]
    for i in range(n):
        cell = cells[i]
        k = heads[cell]
        heads[cell] = k + 1
        values[k], order[k] = raw[i], i
    for i in range(1, n):
        x, own, k = values[i], order[i], i
        while k > 0 and values[k - 1] > x:
            values[k], order[k] = values[k - 1], order[k - 1]
            k -= 1
        values[k], order[k] = x, own
