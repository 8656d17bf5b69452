"""Weighted AUROC of rows of scores without sorting the rows: one exact kernel in two passes.

Only the positives, a few hundred, are sorted. Their range is cut into equal buckets. A first pass
finds the bucket of every score; a second adds, from a table of the buckets, the weight of the
positives above it. Scores that share a bucket with a positive are compared with the positives
there. Sums are of whole numbers, so ties count exactly one half in any order of summation.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

#: Scores between the two passes: their buckets stay in the first-level cache.
_CHUNK = 2048
_FEWEST_BUCKETS, _MOST_BUCKETS = 2048, 16384
#: Buckets for a difference of 1 at most, so that no product of two finite scores overflows.
_STEEPEST = 1e30
#: A bucket of more positives is searched by halving.
_CROWDED = 16


@nb.njit(cache=True, nogil=True)
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def aurocs_of_rows(scores, queries, indptr, tokens, counts):
    """AUROC of each row [row]; NaN without positives, or without negatives.

    scores: [row vocab], finite, row r being of query token queries[r]; the positives of token b are
    tokens[indptr[b] : indptr[b + 1]], distinct ids, weighted by `counts`, whole numbers > 0.
    Negatives weigh one. Exact while vocab × weight stays below 2⁶¹.
    """
    areas = np.full(len(queries), np.nan)
    for r in range(len(queries)):
        entries = slice(indptr[queries[r]], indptr[queries[r] + 1])
        if 0 < entries.stop - entries.start < scores.shape[1]:
            areas[r] = _auroc(scores[r], tokens[entries], counts[entries])
    return areas


@nb.njit(cache=True, nogil=True)
@no_type_check
def _auroc(scores, positives, counts):
    n, real = len(positives), scores.dtype.type
    values = scores[positives]
    order = np.argsort(values)
    values = values[order]
    above = np.zeros(n + 1, np.int64)  # weight of the i-th positive and of all above it
    for i in range(n - 1, -1, -1):
        above[i] = above[i + 1] + counts[order[i]]
    buckets = _FEWEST_BUCKETS
    while buckets < min(16 * n, _MOST_BUCKETS):
        buckets *= 2
    # Bucket 0 is below all positives, and the last one above all.
    zero, one, last, scale = real(0), real(1), real(buckets - 1), real(_STEEPEST)
    lowest, spread = values[0], values[n - 1] - values[0]
    if spread * scale > last:
        scale = (last - real(2)) / spread
    # Of a bucket without positives 4 × the weight above it; of others 1, which is odd.
    table, start = np.zeros(buckets, np.int64), np.full(buckets + 1, n, np.int32)
    filled = 0
    for i in range(n):
        place = (values[i] - lowest) * scale + one
        bucket = nb.int32(place if place < last else last)
        for b in range(filled, bucket + 1):
            table[b], start[b] = 4 * above[i], i
        filled = max(filled, bucket + 1)
        table[bucket] = 1
    total = nb.int64(0)
    index, aside = np.empty(_CHUNK, np.int32), np.empty(_CHUNK + 1, np.int32)
    for begin in range(0, len(scores), _CHUNK):
        some = scores[begin : begin + _CHUNK]
        for v in range(len(some)):
            place = (some[v] - lowest) * scale + one
            place = place if place < last else last
            index[v] = nb.int32(place if place > zero else zero)
        entries, shared = nb.int64(0), nb.int64(0)
        for v in range(len(some)):  # unsigned places: a signed one might count from the end
            entry = table[nb.uint32(index[v])]
            entries += entry
            aside[nb.uint32(shared)] = v
            shared += entry & 1
        total += (entries - shared) >> 1
        for k in range(shared):
            v = nb.uint32(aside[nb.uint32(k)])
            score, bucket = some[v], nb.uint32(index[v])
            low, high = start[bucket], start[bucket + nb.uint32(1)]
            if high - low > _CROWDED:
                low, high = _equal_to(score, values, low, high)
            else:
                i, end = nb.uint32(low), nb.uint32(high)
                low += values[i] < score
                high -= values[i] > score
                i += nb.uint32(1)
                while i < end:
                    low += values[i] < score
                    high -= values[i] > score
                    i += nb.uint32(1)
            total += above[nb.uint32(low)] + above[nb.uint32(high)]
    i = 0
    while i < n:  # positives among themselves do not count
        j = i
        while j < n and values[j] == values[i]:
            j += 1
        total -= (j - i) * (above[i] + above[j])
        i = j
    return total / (2.0 * above[0] * (len(scores) - n))


@nb.njit(cache=True, nogil=True)
@no_type_check
def _equal_to(score, values, low, high):
    """Where the ascending values equal to a score begin and end, given a range that holds them."""
    some = values[low:high]
    return low + np.searchsorted(some, score), low + np.searchsorted(some, score, "right")
