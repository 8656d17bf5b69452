"""Weighted AUROCs of one row of scores by counting, without sorting the row.

A query token has some hundred positives and tens of thousands of negatives, so only the positives
are sorted. The range of their scores is cut into equal buckets. Every token of the vocabulary finds
its bucket with one multiplication, and the tokens of a bucket are merely counted. Only tokens that
share a bucket with a positive score, a few in a hundred, are compared with it. So each positive
learns how many tokens score less than it does, and how many the same: all that an AUROC needs.
Ties count one half, exactly.

Several sets of positives (bigrams read forwards, backwards, of other tokens) share one look at a
row, which is what costs time: theirs are sorted together.

All sums are of whole numbers where the weights are counts: no rounding as long as they stay below
2⁵³, and the order of summation does not matter.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

from lnattn.numerics import vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.vectorised import fetch_ahead
from lnattn.studies.affinity import buckets as by_size
from lnattn.studies.affinity.buckets import factor_for, find_buckets, sort

#: Buckets per positive: more of them leave fewer tokens to compare, but wear out the cache. So
#: there are many as long as their tallies fit into a core's own, and then fewer.
_PER_POSITIVE, _PER_POSITIVE_OF_MANY = 128, 16
_FEWEST, _FAST, _MOST = 512, 24_576, 60_000
#: The tally of a bucket that holds a value begins here, and stays below 0.
_SHARED = -(1 << 30)
#: Up to so many values are searched from end to end.
_SHORT = 16
#: Scores whose buckets are found at a time, and of these how many to a line of the cache: line by
#: line, while these are counted, the next ones are fetched.
_CHUNK, _LINE = 2048, 16


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
def _count_below(scores, values, room):
    """How many scores are below each value and how many up to it: `below` and `upto` of `room`.

    values: [n], ascending. Both counts are sums over places: a score below values[k] and all that
    follow is entered at k, and in the end the entries are summed up.
    """
    buckets, of_values, shared, place, group, starts, tally, below, upto = room
    n, real = len(values), scores.dtype.type
    low, high = values[0], values[n - 1]
    many = max(_FEWEST, min(_PER_POSITIVE * n, _FAST), _PER_POSITIVE_OF_MANY * n)
    inner = min(many, _MOST)
    per_score = factor_for(low, high, real(inner))
    size, last = inner + 4, real(inner + 2)

    # Values that share a bucket are a group: values[starts[g] : starts[g + 1]], g = group[b].
    tally[:size] = 0
    find_buckets(values, low, per_score, last, of_values)
    groups, previous = 0, nb.int64(-1)
    for i in range(n):
        b = nb.int64(of_values[i])
        if b != previous:
            tally[b], group[b], starts[groups] = _SHARED, groups, i
            groups += 1
            previous = b
    starts[groups] = n

    found = 0
    for begin in range(0, len(scores), _CHUNK):
        chunk = scores[begin : begin + _CHUNK]
        find_buckets(chunk, low, per_score, last, buckets)
        buckets[len(chunk) : len(chunk) + _LINE] = size - 1  # to whole lines, by one nobody asks
        for line in range(0, len(chunk), _LINE):
            fetch_ahead(scores, begin + _CHUNK + line)
            for v in range(line, line + _LINE):
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
        x, g = shared[i], group[place[i]]
        k, stop = nb.int64(starts[g]), nb.int64(starts[g + 1])
        past = k
        if stop - k <= _SHORT:
            for j in range(k, stop):
                k += values[j] < x
                past += values[j] <= x
        else:
            k = _bisect(values, x, k, stop, False)
            past = _bisect(values, x, past, stop, True)
        upto[k] += 1
        below[past] += 1
    for k in range(1, n):
        below[k] += below[k - 1]
        upto[k] += upto[k - 1]


@nb.njit(cache=True, nogil=True)
@no_type_check
def _area(values, order, counts, below, upto, vocab):
    """The AUROC of a single set, whose positives below a value are those sorted before it."""
    n = len(values)
    if n == vocab:
        return np.nan
    total = weight = 0.0
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and values[end] == values[begin]:
            end += 1
        for i in range(begin, end):
            w = counts[order[i]]
            # Twice the negatives below, ties by half; positives were counted with the others.
            total += w * (below[i] + upto[i] - begin - end)
            weight += w
        begin = end
    return total / (2.0 * weight * (vocab - n))


@nb.njit(cache=True, nogil=True)
@no_type_check
def row_aurocs(scores, ends, positives, counts, room, areas):
    """AUROC of one row for each set: its positives weighted by their counts, other tokens by one.

    scores: [vocab] float32 or float64, finite; ends: [set + 1]; positives, counts: [n], those of
    set s from ends[s] to ends[s + 1], distinct token ids and positive numbers; room: working memory
    from `make_room`. Fills areas [set]; NaN without positives or without negatives.
    """
    n, n_sets, vocab = len(positives), len(ends) - 1, len(scores)
    areas[:] = np.nan
    if n == 0:
        return
    raw, of_sort, of_count = room
    for i in range(n):
        raw[i] = scores[positives[i]]
    sort(raw[:n], of_sort)
    values, order = of_sort[0][:n], of_sort[1][:n]
    _count_below(scores, values, of_count)
    below, upto = of_count[7], of_count[8]
    if n_sets == 1:
        areas[0] = _area(values, order, counts, below, upto, vocab)
        return
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
def make_room(scores, most_positives):
    """Working memory for `row_aurocs`, for rows like these and up to so many positives."""
    vocab, real = scores.shape[1], scores.dtype
    of_sort = (
        np.empty(most_positives, real),
        np.empty(most_positives, np.int64),
        np.empty(most_positives, np.int32),
        np.empty(most_positives + 2, np.int32),
    )
    of_count = (
        np.empty(_CHUNK + _LINE, np.uint16),
        np.empty(most_positives, np.uint16),
        np.empty(vocab + 1, real),
        np.empty(vocab + 1, np.uint16),
        np.empty(_MOST + 4, np.uint16),
        np.empty(most_positives + 1, np.int32),
        np.empty(_MOST + 4, np.int32),
        np.empty(most_positives + 1, np.int64),
        np.empty(most_positives + 1, np.int64),
    )
    return np.empty(most_positives, real), of_sort, of_count


@nb.njit(cache=True, nogil=True)
@no_type_check
def aurocs_of_rows(scores, queries, ends, tokens, counts):
    """`row_aurocs` for every row of a block, [set row]: row r is of the query token queries[r].

    scores: [row vocab]; ends: [vocab, set + 1], tokens, counts: the positives of all query tokens,
    those of token b in set s from ends[b, s] to ends[b, s + 1].
    """
    n_sets, most = ends.shape[1] - 1, 1
    for query in queries:
        most = max(most, ends[query, n_sets] - ends[query, 0])
    room = make_room(scores, most)
    result = np.empty((len(queries), n_sets))
    for r in range(len(queries)):
        own = ends[queries[r]]
        these = slice(own[0], own[n_sets])
        row_aurocs(scores[r], own - own[0], tokens[these], counts[these], room, result[r])
    return result.T


forget_outdated(__name__, by_size, vectorised)
