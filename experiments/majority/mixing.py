"""From class counts to what attention adds, compiled, and back: `LANES` pairs at a time.

The first steps of `kernel`, and the last ones on the way back; `steps` has what lies between, and
says how the arrays lie. With one query class c and counts n of the classes in a sequence,
attention's output is (M_c n) divided by its last coordinate.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numba
import numpy as np

from experiments.majority.steps import LANES, OPTIONS
from experiments.vectorised import widest


@numba.njit(**OPTIONS)
@no_type_check
def mixing_matrix(scores, values, mix):
    """M_c of `kernel` from the scores of one query class [C]; values: [C, d].

    Scores may be shifted by any constant; by the middle of their range, e^S stays within the
    numbers of its dtype for as long as the scores allow.
    """
    classes, d = values.shape
    middle = (scores.max() + scores.min()) / 2
    for k in range(classes):
        mix[d, k] = math.exp(scores[k] - middle)
        for j in range(d):
            mix[j, k] = mix[d, k] * values[k, j]


@numba.njit(**OPTIONS)
@no_type_check
def gather(words, members, first, own, there, n, label, weight, word):
    """Counts of LANES pairs, one a column, their labels, and how often each counts.

    words: as from `kernel.columns_of`; own: the pairs' class; there: how many of them there are:
    the others are repetitions that count 0 times. word is scratch.
    """
    widest()
    last, byte = len(words) - 1, np.int32(255)
    for k in range(last):
        for lane in range(LANES):
            word[lane] = words[k, members[first + lane]]
        for lane in range(LANES):
            four = word[lane]
            n[4 * k, lane] = np.int32(four & byte)
            n[4 * k + 1, lane] = np.int32(np.int32(four >> 8) & byte)
            n[4 * k + 2, lane] = np.int32(np.int32(four >> 16) & byte)
            n[4 * k + 3, lane] = np.int32(np.int32(four >> 24) & byte)
    for lane in range(LANES):
        label[lane] = words[last, members[first + lane]]
    for lane in range(LANES):
        weight[lane] = n[own, lane] if lane < there else 0


@numba.njit(**OPTIONS)
@no_type_check
def divide_and_add(mixed, start, inverse, x):
    """Numerators become o = numerator/denominator, and x = o + start."""
    widest()
    d, one = len(start), x.dtype.type(1)
    for lane in range(LANES):
        inverse[lane] = one / mixed[d, lane]
    for j in range(d):
        for lane in range(LANES):
            mixed[j, lane] *= inverse[lane]
        for lane in range(LANES):
            x[j, lane] = mixed[j, lane] + start[j]


@numba.njit(**OPTIONS)
@no_type_check
def mix_backward(d_x, mixed, inverse):
    """Overwrite o (rows 0 … d−1 of `mixed`) and the denominator by their sums' gradients."""
    widest()
    d = len(mixed) - 1
    for lane in range(LANES):
        mixed[d, lane] = 0
    for j in range(d):
        for lane in range(LANES):
            mixed[d, lane] -= d_x[j, lane] * mixed[j, lane]
        for lane in range(LANES):
            mixed[j, lane] = d_x[j, lane] * inverse[lane]
    for lane in range(LANES):
        mixed[d, lane] *= inverse[lane]


@numba.njit(**OPTIONS)
@no_type_check
def mixing_backward(g_mix, mix, values, g_scores, g_values):
    """From the gradient of M_c to those of its row of scores and of all values."""
    classes, d = values.shape
    for k in range(classes):
        e, along = mix[d, k], g_mix[d, k]
        for j in range(d):
            g_values[k, j] = e * g_mix[j, k]
            along += values[k, j] * g_mix[j, k]
        g_scores[k] = e * along
