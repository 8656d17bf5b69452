"""Several sets of positives at once: how many scores are below each positive's.

The tokens of a bucket are merely counted, and the counts summed up from positive to positive.
`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

from lnattn.numerics import instructions
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.instructions import fetch_ahead
from lnattn.studies.affinity import buckets as by_size
from lnattn.studies.affinity.buckets import (
    CHUNK,
    LINE,
    cut,
    find_buckets,
    group_by_bucket,
    places_among,
)

#: The tally of a bucket that holds a value begins here, and stays below 0.
_SHARED = -(1 << 30)


@nb.njit(cache=True, nogil=True)
@no_type_check
def several_areas(scores, ends, values, order, counts, room, areas):
    """The AUROC of each set: see `row_aurocs`. values, order: of the positives of all, sorted."""
    n, n_sets, vocab = len(values), len(ends) - 1, len(scores)
    below, upto = room[6], room[7]
    _count_below(scores, values, room)
    total, weight = np.zeros(n_sets), np.zeros(n_sets)
    # Of each set: positives met so far, and those of the present value.
    met, here = np.zeros(n_sets, np.int64), np.zeros(n_sets, np.int64)
    own = np.searchsorted(ends, order, side="right") - 1
    begin = 0
    while begin < n:
        end = begin
        while end < n and values[end] == values[begin]:
            here[own[end]] += 1
            end += 1
        for i in range(begin, end):
            s, w = own[i], counts[order[i]]
            # Twice the negatives below, ties by half; positives were counted with the others.
            total[s] += w * (below[i] + upto[i] - 2 * met[s] - here[s])
            weight[s] += w
        met += here
        here[:] = 0
        begin = end
    for s in range(n_sets):
        if 0 < met[s] < vocab:
            areas[s] = total[s] / (2.0 * weight[s] * (vocab - met[s]))


@nb.njit(cache=True, nogil=True)
@no_type_check
def _count_below(scores, values, room):
    """How many scores are below each value and how many up to it: `below` and `upto` of `room`.

    values: [n], ascending. Both counts are sums over places: a score below values[k] and all that
    follow is entered at k, and in the end the entries are summed up.
    """
    buckets, of_values, (shared, place), (group, starts), tally, _, below, upto = room
    n, real = len(values), scores.dtype.type
    low = values[0]
    inner, per_score = cut(values)
    size, last = inner + 4, real(inner + 2)
    find_buckets(values, low, per_score, last, of_values)
    groups = group_by_bucket(of_values[:n], group, starts)
    tally[:size] = 0
    for g in range(groups):
        tally[of_values[starts[g]]] = _SHARED

    found = 0
    for begin in range(0, len(scores), CHUNK):
        chunk = scores[begin : begin + CHUNK]
        find_buckets(chunk, low, per_score, last, buckets)
        buckets[len(chunk) : len(chunk) + LINE] = size - 1  # to whole lines, by one nobody asks
        for line in range(0, len(chunk), LINE):
            fetch_ahead(scores, begin + CHUNK + line)
            for v in range(line, line + LINE):
                b = buckets[v]
                count = tally[b] + nb.int32(1)
                tally[b] = count
                if count < 0:  # seldom: the bucket holds a value
                    shared[found], place[found] = chunk[v], b
                    found += 1
    below[: n + 1] = 0
    upto[: n + 1] = 0
    begin = nb.int64(0)
    for g in range(groups):
        i = starts[g]
        b = nb.int64(of_values[i])
        between = nb.int32(0)
        for other in range(begin, b):
            between += tally[other]
        below[i], upto[i] = between, between
        begin = b + 1
    for i in range(found):
        g = group[place[i]]
        k, past = places_among(shared[i], values, nb.int64(starts[g]), nb.int64(starts[g + 1]))
        upto[k] += 1
        below[past] += 1
    for k in range(1, n):
        below[k] += below[k - 1]
        upto[k] += upto[k - 1]


forget_outdated(__name__, by_size, instructions)
