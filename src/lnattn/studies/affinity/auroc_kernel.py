"""Weighted AUROCs of one row of scores, without sorting the row.

A query token has some hundred positives and tens of thousands of negatives, so only the positives
are sorted. The range of their scores is cut into equal buckets. Every token of the vocabulary finds
its bucket with one multiplication, and only tokens that share a bucket with a positive score, a
few in a hundred, are compared with it. For one set of positives, every other token looks up in a
table of the buckets what it adds to the AUROC (`auroc_lookup`). Several sets (bigrams read
forwards, backwards, of other tokens) share one look at a row: their positives are sorted together,
the tokens of a bucket are counted, and so each positive learns how many tokens score less than it
does, and how many the same (`auroc_tallies`). Ties count one half, exactly.

All sums are of whole numbers where the weights are counts: no rounding as long as they stay below
2⁵³, and the order of summation does not matter.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

import numba as nb
import numpy as np

from lnattn.numerics import instructions, vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.instructions import AT_ONCE
from lnattn.studies.affinity import auroc_lookup, auroc_tallies
from lnattn.studies.affinity import buckets as by_size
from lnattn.studies.affinity.auroc_lookup import LIGHT, single_area
from lnattn.studies.affinity.auroc_tallies import several_areas
from lnattn.studies.affinity.buckets import CHUNK, LINE, MOST, sort


@nb.njit(cache=True, nogil=True)
@no_type_check
def row_aurocs(scores, ends, positives, counts, room, areas):
    """AUROC of one row for each set: its positives weighted by their counts, other tokens by one.

    scores: [vocab] float32 or float64, finite; ends: [set + 1]; positives, counts: [n], those of
    set s from ends[s] to ends[s + 1], distinct token ids and whole numbers > 0; room: working
    memory from `make_room`. Fills areas [set]; NaN without positives or without negatives.
    """
    n, n_sets = len(positives), len(ends) - 1
    areas[:] = np.nan
    if n == 0:
        return
    raw, of_sort, of_count = room
    weight = nb.int64(0)
    for i in range(n):
        raw[i] = scores[positives[i]]
        weight += counts[i]
    sort(raw[:n], of_sort)
    values, order = of_sort[0][:n], of_sort[1][:n]
    if n_sets == 1 and weight < LIGHT:
        areas[0] = single_area(scores, values, order, counts, of_count)
    else:
        several_areas(scores, ends, values, order, counts, of_count, areas)


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
        np.empty(CHUNK + LINE, np.uint16),
        np.empty(most_positives, np.uint16),
        (np.empty(vocab + 1, real), np.empty(vocab + 1, np.uint16)),
        (np.empty(MOST + 4, np.uint16), np.empty(most_positives + 1, np.int32)),
        np.empty(MOST + 4 + LINE, np.int32),
        np.empty(CHUNK + AT_ONCE, np.int32),
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


forget_outdated(__name__, auroc_lookup, auroc_tallies, by_size, instructions, vectorised)
