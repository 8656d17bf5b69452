"""Weighted AUROC of one row of scores by counting, without sorting the row.

A query token has some hundred positives and tens of thousands of negatives, so only the positives
are sorted. The range of their scores is cut into equal buckets. Every token of the vocabulary finds
its bucket with one multiplication, and the tokens of a bucket are merely counted: all of them have
the same positive weight above. Only tokens that share a bucket with a positive score, a few in a
hundred, are compared with it. Ties count one half, exactly.

All sums are of whole numbers where the weights are counts: no rounding as long as they stay below
2⁵³, and the order of summation does not matter.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

#: Buckets per positive: more of them leave fewer tokens to compare, but wear out the cache.
_PER_POSITIVE = 16
_FEWEST, _MOST = 512, 60_000
#: Up to so many values are sorted by insertion and searched from end to end.
_SHORT = 16


@nb.njit(cache=True, nogil=True)
@no_type_check
def _find_buckets(scores, low, per_score, last, buckets):
    """Bucket of every score: 0 lies below all positives, `last` above; rises with the score."""
    zero, one = scores.dtype.type(0), scores.dtype.type(1)
    for v in range(len(scores)):
        place = (scores[v] - low) * per_score + one
        buckets[v] = np.uint16(min(max(place, zero), last))


@nb.njit(cache=True, nogil=True)
@no_type_check
def _sort_slice(values, weights):
    """Sort values in place, ascending, and their weights with them."""
    if len(values) > _SHORT:
        order = np.argsort(values)
        values[:], weights[:] = values[order], weights[order]
        return
    for i in range(1, len(values)):
        value, weight, k = values[i], weights[i], i
        while k > 0 and values[k - 1] > value:
            values[k], weights[k] = values[k - 1], weights[k - 1]
            k -= 1
        values[k], weights[k] = value, weight


@nb.njit(cache=True, nogil=True)
@no_type_check
def _sort_into_buckets(scores, counts, buckets, size, first, shared, values, weights):
    """Sort positives by counting; afterwards first[b] … first[b+1] are those of bucket b.

    shared[b]: whether there is any. While the positives are put in their places, first[b+1] is
    the next free place of bucket b, so that in the end it is where bucket b+1 begins.
    """
    first[: size + 2] = 0
    for i in range(len(scores)):
        first[buckets[i] + 2] += 1
    for b in range(size):
        first[b + 1] += first[b]
    for i in range(len(scores)):
        b = buckets[i] + 1
        values[first[b]], weights[first[b]] = scores[i], counts[i]
        first[b] += 1
    for b in range(size):
        width = first[b + 1] - first[b]
        shared[b] = width > 0
        if width > 1:
            _sort_slice(values[first[b] : first[b + 1]], weights[first[b] : first[b + 1]])


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
def _weight_above_all(scores, buckets, size, first, values, above, tally, shared, listed):
    """Positive weight above each token, ties by half, summed over all tokens of the row, twice."""
    tally[:size] = 0
    found = 0
    for v in range(len(scores)):
        b = buckets[v]
        tally[b] += 1
        # Written always, kept only where the bucket holds a positive: no branch to mispredict.
        listed[found] = v
        found += shared[b]
    total = 0.0
    for b in range(size):
        total += 2.0 * (tally[b] * (1 - shared[b])) * above[first[b]]
    for n in range(found):
        x, b = scores[listed[n]], buckets[listed[n]]
        k, end = first[b], first[b + 1]
        past = k
        if end - k <= _SHORT:
            for i in range(k, end):
                k += values[i] < x
                past += values[i] <= x
        else:
            k = _bisect(values, x, k, end, False)
            past = _bisect(values, x, k, end, True)
        total += above[k] + above[past]
    return total


@nb.njit(cache=True, nogil=True)
@no_type_check
def row_auroc(scores, positives, counts, room):
    """AUROC of one row: positives weighted by their counts, every other token by one.

    scores: [vocab] float32 or float64, finite; positives: [n] distinct token ids; counts: [n],
    positive; room: working memory from `make_room`. NaN without positives or without negatives.
    """
    n, vocab = len(positives), len(scores)
    if n == 0 or n == vocab:
        return np.nan
    buckets, listed, first, tally, shared, unsorted, values, weights, above = room
    real = scores.dtype.type
    low = high = scores[positives[0]]
    for i in range(n):
        unsorted[i] = scores[positives[i]]
        low, high = min(low, unsorted[i]), max(high, unsorted[i])
    inner = min(max(_FEWEST, _PER_POSITIVE * n), _MOST)
    # Where the range is too narrow to divide by, any factor serves: one bucket takes all.
    per_score = real(inner) / (high - low) if high - low > real(1e-30) else real(1)
    size, last = inner + 3, real(inner + 2)

    _find_buckets(unsorted[:n], low, per_score, last, buckets)
    _sort_into_buckets(unsorted[:n], counts, buckets, size, first, shared, values, weights)
    above[n] = 0.0
    for k in range(n - 1, -1, -1):
        above[k] = above[k + 1] + weights[k]
    _find_buckets(scores, low, per_score, last, buckets)
    total = _weight_above_all(
        scores, buckets, size, first, values[:n], above, tally, shared, listed
    )
    k = 0
    while k < n:  # the positives were counted as if they were negatives: take them out
        past = k + 1
        while past < n and values[past] == values[k]:
            past += 1
        total -= (past - k) * (above[k] + above[past])
        k = past
    return total / (2.0 * above[0] * (vocab - n))


@nb.njit(cache=True, nogil=True)
@no_type_check
def make_room(scores, most_positives):
    """Working memory for `row_auroc`, for rows like `scores` and up to so many positives."""
    vocab = len(scores)
    return (
        np.empty(max(vocab, most_positives), np.uint16),
        np.empty(vocab + 1, np.int32),
        np.empty(_MOST + 4, np.int32),
        np.empty(_MOST + 4, np.int32),
        np.empty(_MOST + 4, np.uint8),
        np.empty(most_positives, scores.dtype),
        np.empty(most_positives, scores.dtype),
        np.empty(most_positives, np.float64),
        np.empty(most_positives + 1, np.float64),
    )


@nb.njit(cache=True, parallel=True)
@no_type_check
def auroc_of_rows(scores, queries, indptr, tokens, counts, threads):
    """`row_auroc` for every row of a block: row r belongs to the query token queries[r].

    scores: [row vocab]; indptr, tokens, counts: the positives of all query tokens, one after the
    other as in a CSR matrix. Rows are dealt out in turn to `threads` threads.
    """
    result = np.empty(len(queries))
    for thread in nb.prange(threads):
        most = 1
        for r in range(thread, len(queries), threads):
            most = max(most, indptr[queries[r] + 1] - indptr[queries[r]])
        room = make_room(scores[0], most)
        for r in range(thread, len(queries), threads):
            begin, end = indptr[queries[r]], indptr[queries[r] + 1]
            result[r] = row_auroc(scores[r], tokens[begin:end], counts[begin:end], room)
    return result
