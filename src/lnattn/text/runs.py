"""Sorted runs: the kernels that turn a buffer of keys into counts, and merge counts.

A *run* is a pair of arrays of equal length: keys, ascending and distinct (uint32 or uint64), and
how often each occurs (int64).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import no_type_check

import numpy as np
from numba import njit

Run = tuple[np.ndarray, np.ndarray]


def run_of(keys: np.ndarray) -> Run:
    """The run of an array of keys in any order. Sorts `keys` in place."""
    keys.sort()
    return _count_equal(keys)


def merge_all(runs: Sequence[Run], dtype: type = np.uint64) -> Run:
    """One run out of any number; counts of equal keys are added. `dtype` is that of no runs."""
    runs = list(runs)
    if not runs:
        return np.empty(0, dtype), np.empty(0, np.int64)
    while len(runs) > 1:
        # Neighbours two by two: every entry is copied log2(runs) times, not once for each run.
        merged = [merge_two(a, b) for a, b in zip(runs[::2], runs[1::2], strict=False)]
        runs = merged + runs[2 * len(merged) :]
    return runs[0]


def merge_two(a: Run, b: Run) -> Run:
    """The run of all keys of two runs; counts of equal keys are added."""
    return _merge(a[0], a[1], b[0], b[1])


@njit(nogil=True, cache=True)
@no_type_check  # the tests' shape checker cannot wrap what numba compiles
def _count_equal(keys):
    distinct = 0
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            distinct += 1
    unique = np.empty(distinct, keys.dtype)
    counts = np.zeros(distinct, np.int64)
    place = -1
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            place += 1
            unique[place] = keys[i]
        counts[place] += 1
    return unique, counts


@njit(nogil=True, cache=True)
@no_type_check  # the tests' shape checker cannot wrap what numba compiles
def _merge(keys_a, counts_a, keys_b, counts_b):
    keys = np.empty(len(keys_a) + len(keys_b), keys_a.dtype)
    counts = np.empty(len(keys), np.int64)
    i, j, size = 0, 0, 0
    while i < len(keys_a) and j < len(keys_b):
        a, b = keys_a[i], keys_b[j]
        keys[size] = min(a, b)
        counts[size] = (counts_a[i] if a <= b else 0) + (counts_b[j] if b <= a else 0)
        i += a <= b
        j += b <= a
        size += 1
    while i < len(keys_a):
        keys[size], counts[size] = keys_a[i], counts_a[i]
        i, size = i + 1, size + 1
    while j < len(keys_b):
        keys[size], counts[size] = keys_b[j], counts_b[j]
        j, size = j + 1, size + 1
    # Copies: views would keep the untrimmed arrays alive.
    return keys[:size].copy(), counts[:size].copy()
