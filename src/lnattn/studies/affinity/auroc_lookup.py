"""One set of positives: every score looks up what it adds to the AUROC.

The AUROC is a sum over the negatives, and what a negative adds depends on its score alone: twice
the weight of the positives below it, once that of its equals (what is missing of twice the weight
of all is what the AUROC counts). Between two positives all scores add the same, so that is written
into the table of the buckets, and a score costs one look, without a comparison or a branch.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

from lnattn.numerics import instructions, vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.instructions import AT_ONCE, fetch_ahead, lowest_bit, negatives
from lnattn.numerics.vectorised import widest
from lnattn.studies.affinity import buckets as by_size
from lnattn.studies.affinity.buckets import (
    CHUNK,
    LINE,
    cut,
    find_buckets,
    group_by_bucket,
    places_among,
)

#: Sets whose counts sum to less than this: twice as much fits into the table.
LIGHT = 1 << 30
#: What a bucket that holds a value has in the table: no other entry is below 0.
_SHARED = -(1 << 31)


@nb.njit(cache=True, nogil=True)
@no_type_check
def single_area(scores, values, order, counts, room):
    """The AUROC of one set: see `row_aurocs`. values, order: of its positives, sorted.

    The sum of its counts must be below `LIGHT`; without negatives NaN.
    """
    n, vocab = len(values), len(scores)
    if n == vocab:
        return np.nan
    weight_below = room[6]
    weight_below[0] = 0
    for i in range(n):
        weight_below[i + 1] = weight_below[i] + counts[order[i]]
    total = _sum_below(scores, values, weight_below, room)
    begin = 0
    while begin < n:  # positives have added to the sum with the others
        end = begin + 1
        while end < n and values[end] == values[begin]:
            end += 1
        total -= (end - begin) * (weight_below[begin] + weight_below[end])
        begin = end
    everything = 2 * weight_below[n] * (vocab - n)
    return (everything - total) / everything


@nb.njit(cache=True, nogil=True)
@no_type_check
def _sum_below(scores, values, weight_below, room):
    """Sum over all scores of the weight of the values below plus that of the values up to it.

    values: [n], ascending; weight_below: [n + 1], that of the values before each place.
    """
    widest()
    buckets, of_values, (shared, place), (group, starts), table, entries, _, _ = room
    n, real = len(values), scores.dtype.type
    low = values[0]
    inner, per_score = cut(values)
    last = real(inner + 2)
    find_buckets(values, low, per_score, last, of_values)
    groups = group_by_bucket(of_values[:n], group, starts)
    begin = nb.int64(0)
    for g in range(groups):
        i = starts[g]
        b = nb.int64(of_values[i])
        _fill(table, begin, b, nb.int32(2 * weight_below[i]))
        table[b] = _SHARED
        begin = b + 1
    _fill(table, begin, nb.int64(inner + 3), nb.int32(2 * weight_below[n]))

    total, found = nb.int64(0), 0
    for begin in range(0, len(scores), CHUNK):
        chunk = scores[begin : begin + CHUNK]
        find_buckets(chunk, low, per_score, last, buckets)
        for v in range(len(chunk)):
            entries[v] = table[buckets[v]]
        of_chunk = nb.int64(0)
        for v in range(len(chunk)):
            of_chunk += entries[v]
        total += of_chunk
        entries[len(chunk) : len(chunk) + AT_ONCE] = 0
        for first in range(0, len(chunk), AT_ONCE):
            for line in range(first, first + AT_ONCE, LINE):
                fetch_ahead(scores, begin + CHUNK + line)
            bits = negatives(entries, first)
            while bits:  # seldom: the bucket holds a value
                v = first + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                shared[found], place[found] = chunk[v], buckets[v]
                found += 1
    total -= nb.int64(found) * _SHARED
    for i in range(found):
        g = group[place[i]]
        k, past = places_among(shared[i], values, nb.int64(starts[g]), nb.int64(starts[g + 1]))
        total += weight_below[k] + weight_below[past]
    return total


@nb.njit(cache=True, nogil=True)
@no_type_check
def _fill(table, begin, end, entry):
    """table[begin:end] = entry, by whole lines: up to 15 places after `end` are written as well."""
    for line in range(begin, end, LINE):
        for b in range(line, line + LINE):
            table[b] = entry


forget_outdated(__name__, by_size, instructions, vectorised)
