"""From the gradient of the logits back to all weights, `LANES` pairs at a time, compiled.

The steps of `majority_kernel` on the way back; see `majority_forward` for the layout.
"""

from __future__ import annotations

from typing import no_type_check

import numba

from lnattn.numerics.compiled import forget_outdated
from lnattn.studies.majority import steps as majority_forward
from lnattn.studies.majority.steps import LANES, OPTIONS


@numba.njit(**OPTIONS)
@no_type_check
def outer(A, X, G):
    """G += A Xᵀ, summed over the lanes; G decides how many rows and columns are wanted."""
    rows, width = G.shape
    pairs = rows // 2 * 2
    for i in range(0, pairs, 2):
        for j in range(0, width, 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = A.dtype.type(0)
            for lane in range(LANES):
                p, q = A[i, lane], A[i + 1, lane]
                a0 += p * X[j, lane]
                a1 += p * X[j + 1, lane]
                a2 += p * X[j + 2, lane]
                a3 += p * X[j + 3, lane]
                b0 += q * X[j, lane]
                b1 += q * X[j + 1, lane]
                b2 += q * X[j + 2, lane]
                b3 += q * X[j + 3, lane]
            G[i, j] += a0
            G[i, j + 1] += a1
            G[i, j + 2] += a2
            G[i, j + 3] += a3
            G[i + 1, j] += b0
            G[i + 1, j + 1] += b1
            G[i + 1, j + 2] += b2
            G[i + 1, j + 3] += b3
    for i in range(pairs, rows):
        for j in range(width):
            a0 = A.dtype.type(0)
            for lane in range(LANES):
                a0 += A[i, lane] * X[j, lane]
            G[i, j] += a0


@numba.njit(**OPTIONS)
@no_type_check
def row_sums(A, g):
    """g += the sums of A's rows over the lanes."""
    for i in range(len(g)):
        s = A.dtype.type(0)
        for lane in range(LANES):
            s += A[i, lane]
        g[i] += s


@numba.njit(**OPTIONS)
@no_type_check
def relu_backward(d_h, h, d):
    zero = h.dtype.type(0)
    for j in range(d):
        for lane in range(LANES):
            d_h[j, lane] = d_h[j, lane] if h[j, lane] > zero else zero


@numba.njit(**OPTIONS)
@no_type_check
def standardise_backward(d_z, x_hat, inverse_sigma, gain, d_x, g_gain, g_shift, mean, along):
    """Add LayerNorm's gradient to d_x, which holds the residual's, and to gain and shift.

    mean and along are scratch.
    """
    d, zero = len(gain), d_x.dtype.type(0)
    share = d_x.dtype.type(1 / d)
    for lane in range(LANES):
        mean[lane] = zero
        along[lane] = zero
    for j in range(d):
        s = t = zero
        for lane in range(LANES):
            s += d_z[j, lane]
            t += d_z[j, lane] * x_hat[j, lane]
        g_shift[j] += s
        g_gain[j] += t
        # One array is written in each loop: the compiler need not fear that two overlap.
        for lane in range(LANES):
            d_z[j, lane] *= gain[j]
        for lane in range(LANES):
            mean[lane] += share * d_z[j, lane]
        for lane in range(LANES):
            along[lane] += share * d_z[j, lane] * x_hat[j, lane]
    for j in range(d):
        for lane in range(LANES):
            change = d_z[j, lane] - mean[lane] - x_hat[j, lane] * along[lane]
            d_x[j, lane] += inverse_sigma[lane] * change


@numba.njit(**OPTIONS)
@no_type_check
def mix_backward(d_x, mixed, inverse):
    """Overwrite o (rows 0 … d−1 of `mixed`) and the denominator by their sums' gradients."""
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


forget_outdated(__name__, majority_forward)
