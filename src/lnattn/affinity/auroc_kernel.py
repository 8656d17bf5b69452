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

from lnattn.compiled import compiled

#: Scores between the two passes: their buckets stay in the first-level cache.
_CHUNK = 2048
_FEWEST_BUCKETS = 2048
_MOST_BUCKETS = 16384
#: Buckets for a difference of 1 at most, so that no product of two finite scores overflows.
_STEEPEST = 1e30
#: A bucket of more positives is searched by halving.
_CROWDED = 16


@compiled
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


@compiled
@no_type_check
def _auroc(scores, positives, counts):  # noqa: C901 (cut into functions it takes 1.35 × the time)
    n = len(positives)
    # Constants of the scores' own precision: one of another would double the time.
    real = scores.dtype.type
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
    zero = real(0)
    one = real(1)
    last = real(buckets - 1)
    scale = real(_STEEPEST)
    lowest = values[0]
    spread = values[n - 1] - lowest
    if spread * scale > last:
        scale = (last - real(2)) / spread
    # Of a bucket without positives 4 × the weight above it; of others 1, which is odd.
    table = np.zeros(buckets, np.int64)
    start = np.full(buckets + 1, n, np.int32)  # the first positive in each bucket or above it
    filled = 0
    for i in range(n):
        place = (values[i] - lowest) * scale + one
        bucket = nb.int32(place if place < last else last)
        for b in range(filled, bucket + 1):
            table[b] = 4 * above[i]
            start[b] = i
        filled = max(filled, bucket + 1)
        table[bucket] = 1
    total = nb.int64(0)
    bucket_of = np.empty(_CHUNK, np.int32)
    shared = np.empty(_CHUNK + 1, np.int32)  # scores whose bucket holds a positive
    for begin in range(0, len(scores), _CHUNK):
        chunk = scores[begin : begin + _CHUNK]
        for v in range(len(chunk)):
            place = (chunk[v] - lowest) * scale + one
            place = place if place < last else last
            bucket_of[v] = nb.int32(place if place > zero else zero)
        entries = nb.int64(0)
        n_shared = nb.int64(0)
        for v in range(len(chunk)):  # unsigned places: a signed one might count from the end
            entry = table[nb.uint32(bucket_of[v])]
            entries += entry
            shared[nb.uint32(n_shared)] = v
            n_shared += entry & 1
        total += (entries - n_shared) >> 1
        for k in range(n_shared):
            v = nb.uint32(shared[nb.uint32(k)])
            score = chunk[v]
            bucket = nb.uint32(bucket_of[v])
            low = start[bucket]
            high = start[bucket + nb.uint32(1)]
            if high - low > _CROWDED:
                low, high = _equal_to(score, values, low, high)
            else:
                i = nb.uint32(low)
                end = nb.uint32(high)
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


@compiled
@no_type_check
def _equal_to(score, values, low, high):
    """Where the ascending values equal to a score begin and end, given a range that holds them."""
    inside = values[low:high]
    return low + np.searchsorted(inside, score), low + np.searchsorted(inside, score, "right")
