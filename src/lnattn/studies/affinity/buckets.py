"""Numbers cut into buckets by their size: the way to count them, and to sort a few of them.

A number finds its bucket by one multiplication, which keeps the order: whoever is in a lower bucket
is less. Here the buckets are for a row's positive scores, `values`: only who shares a bucket with
one of these has to be compared with it.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

#: Buckets per value: more of them leave fewer scores to compare, but wear out the cache. So there
#: are many as long as what is kept of each fits into a core's own, and then fewer.
_PER_VALUE, _PER_VALUE_OF_MANY = 128, 16
_FEWEST, _FAST = 512, 24_576
#: The most buckets between the least and the greatest value: two bytes name them and a few more.
MOST = 60_000
#: Scores whose buckets are found at a time, and of these how many to a line of the cache: line by
#: line, while these are looked at, the next ones are fetched.
CHUNK, LINE = 2048, 16
#: Up to so many values are searched from end to end.
_SHORT = 16
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


@nb.njit(cache=True, nogil=True)
@no_type_check
def cut(values):
    """Into how many buckets to cut the range of ascending values, and what `factor_for` says."""
    n = len(values)
    inner = min(max(_FEWEST, min(_PER_VALUE * n, _FAST), _PER_VALUE_OF_MANY * n), MOST)
    return inner, factor_for(values[0], values[n - 1], values.dtype.type(inner))


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
def group_by_bucket(of_values, group, starts):
    """Values that share a bucket are a group: values[starts[g] : starts[g + 1]], g = group[bucket].

    of_values: buckets of the values, ascending. Fills `group` where a bucket holds a value, and
    `starts`; returns the number of groups.
    """
    groups, previous = 0, nb.int64(-1)
    for i in range(len(of_values)):
        b = nb.int64(of_values[i])
        if b != previous:
            group[b], starts[groups] = groups, i
            groups += 1
            previous = b
    starts[groups] = len(of_values)
    return groups


@nb.njit(cache=True, nogil=True)
@no_type_check
def _bisect(values, x, low, high, after_ties):
    """First place in values[low:high] whose value is ≥ x, or > x with `after_ties`."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < x or (after_ties and values[middle] == x):
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(cache=True, nogil=True)
@no_type_check
def places_among(x, values, begin, end):
    """How many values are < x and how many ≤ x, if those before `begin` are and none from `end`."""
    below = upto = begin
    if end - begin <= _SHORT:
        for j in range(begin, end):
            below += values[j] < x
            upto += values[j] <= x
        return below, upto
    return _bisect(values, x, begin, end, False), _bisect(values, x, begin, end, True)


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
