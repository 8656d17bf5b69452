"""From class counts to losses and back, compiled: `LANES` pairs of a sequence and class at a time.

The steps of `kernel`, there and back. Arrays of activations are [coordinate, lane]: all
loops run over the lanes, which are side by side in memory. Matrix products take eight or four
columns at a time; that is what the padding of `kernel.Weights` is for.
`no_type_check` keeps the tests' shape checker away from the functions that numba compiles.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numba

from experiments.vectorised import exp2_any, log_any, widest

#: Pairs that are computed side by side: their activations stay near the core.
LANES = 256
#: Numbers from one row of activations to the next: not a power of two, or rows would compete for
#: the same lines of the cache.
SPAN = LANES + 16
#: The logit of a class that there is not.
_UNLIKELY = -1e30

#: Licence to reorder sums and to fuse multiplications; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
#: With numba's own error model every division would be a branch, and no loop with one a vector's.
OPTIONS = {"nogil": True, "cache": True, "fastmath": _FAST, "error_model": "numpy"}


@numba.njit(**OPTIONS)
@no_type_check
def affine(W, bias, X, Y):
    """Y = W X + bias, column by column of the lanes; W's width is a multiple of four.

    Two rows at a time, so that X is read half as often; the last of an odd number once more. The
    first eight columns, if there are so many, go in one: Y is not read again.
    """
    widest()
    rows, width = W.shape
    for row in range(0, rows, 2):
        i = min(row, rows - 2)
        p, q = bias[i], bias[i + 1]
        for j in range(0 if width < 8 else 4, width, 4):
            p0, p1, p2, p3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
            q0, q1, q2, q3 = W[i + 1, j], W[i + 1, j + 1], W[i + 1, j + 2], W[i + 1, j + 3]
            if j == 0:
                for lane in range(LANES):
                    x0, x1, x2, x3 = X[0, lane], X[1, lane], X[2, lane], X[3, lane]
                    Y[i, lane] = (p + p0 * x0 + p1 * x1) + (p2 * x2 + p3 * x3)
                    Y[i + 1, lane] = (q + q0 * x0 + q1 * x1) + (q2 * x2 + q3 * x3)
            elif j == 4:
                r0, r1, r2, r3 = W[i, 0], W[i, 1], W[i, 2], W[i, 3]
                s0, s1, s2, s3 = W[i + 1, 0], W[i + 1, 1], W[i + 1, 2], W[i + 1, 3]
                for lane in range(LANES):
                    x0, x1, x2, x3 = X[0, lane], X[1, lane], X[2, lane], X[3, lane]
                    x4, x5, x6, x7 = X[4, lane], X[5, lane], X[6, lane], X[7, lane]
                    y = (p + r0 * x0 + r1 * x1) + (r2 * x2 + r3 * x3)
                    Y[i, lane] = y + (p0 * x4 + p1 * x5) + (p2 * x6 + p3 * x7)
                    y = (q + s0 * x0 + s1 * x1) + (s2 * x2 + s3 * x3)
                    Y[i + 1, lane] = y + (q0 * x4 + q1 * x5) + (q2 * x6 + q3 * x7)
            else:
                for lane in range(LANES):
                    x0, x1, x2, x3 = X[j, lane], X[j + 1, lane], X[j + 2, lane], X[j + 3, lane]
                    Y[i, lane] += (p0 * x0 + p1 * x1) + (p2 * x2 + p3 * x3)
                    Y[i + 1, lane] += (q0 * x0 + q1 * x1) + (q2 * x2 + q3 * x3)


@numba.njit(**OPTIONS)
@no_type_check
def standardise(x, gain, shift, x_hat, inverse_sigma, z, mean):
    """LayerNorm with gain and shift, and its parts for the way back; `mean` is scratch."""
    widest()
    d = len(gain)
    share, one, zero = x.dtype.type(1 / d), x.dtype.type(1), x.dtype.type(0)
    for lane in range(LANES):
        mean[lane] = zero
        inverse_sigma[lane] = zero
    for j in range(d):
        for lane in range(LANES):
            mean[lane] += share * x[j, lane]
    for j in range(d):
        for lane in range(LANES):
            x_hat[j, lane] = x[j, lane] - mean[lane]
        for lane in range(LANES):
            inverse_sigma[lane] += share * x_hat[j, lane] * x_hat[j, lane]
    for lane in range(LANES):
        inverse_sigma[lane] = one / math.sqrt(inverse_sigma[lane])
    for j in range(d):
        for lane in range(LANES):
            x_hat[j, lane] *= inverse_sigma[lane]
        for lane in range(LANES):
            z[j, lane] = gain[j] * x_hat[j, lane] + shift[j]


@numba.njit(**OPTIONS)
@no_type_check
def relu(h, d):
    widest()
    zero = h.dtype.type(0)
    for j in range(d):
        for lane in range(LANES):
            h[j, lane] = max(h[j, lane], zero)


@numba.njit(**OPTIONS)
@no_type_check
def add(y, x, d):
    widest()
    for j in range(d):
        for lane in range(LANES):
            y[j, lane] += x[j, lane]


@numba.njit(**OPTIONS)
@no_type_check
def softmax(logits, classes, label, weight, scale, highest, total):
    """Cross-entropy and right answers of a tile; logits become scale · weight · (p − one-hot).

    logits: four classes are taken at a time, so there are rows for a multiple of four; what is
    beyond `classes` is overwritten. highest and total are scratch.
    """
    widest()
    zero, bits = logits.dtype.type(0), logits.dtype.type(1 / math.log(2))
    for k in range(classes, len(logits)):
        logits[k] = _UNLIKELY
    for lane in range(LANES):
        highest[lane] = logits[0, lane]
        total[lane] = zero
    for k in range(0, classes, 4):
        for lane in range(LANES):
            a = max(logits[k, lane], logits[k + 1, lane])
            b = max(logits[k + 2, lane], logits[k + 3, lane])
            highest[lane] = max(highest[lane], max(a, b))
    loss = right = zero
    for lane in range(LANES):
        target = logits[label[lane], lane]
        loss += weight[lane] * (highest[lane] - target)
        right += weight[lane] if target >= highest[lane] else zero
    for k in range(0, classes, 4):
        for lane in range(LANES):
            a = exp2_any(bits * (logits[k, lane] - highest[lane]))
            b = exp2_any(bits * (logits[k + 1, lane] - highest[lane]))
            c = exp2_any(bits * (logits[k + 2, lane] - highest[lane]))
            d = exp2_any(bits * (logits[k + 3, lane] - highest[lane]))
            total[lane] += (a + b) + (c + d)
            logits[k, lane], logits[k + 1, lane] = a, b
            logits[k + 2, lane], logits[k + 3, lane] = c, d
    for lane in range(LANES):
        loss += weight[lane] * log_any(total[lane])
    for lane in range(LANES):
        weight[lane] *= scale
    for lane in range(LANES):
        total[lane] = weight[lane] / total[lane]
    for k in range(0, classes, 4):
        for lane in range(LANES):
            logits[k, lane] *= total[lane]
            logits[k + 1, lane] *= total[lane]
            logits[k + 2, lane] *= total[lane]
            logits[k + 3, lane] *= total[lane]
    for lane in range(LANES):
        logits[label[lane], lane] -= weight[lane]
    return loss, right


# --- and back: from the gradient of the logits to all weights ---


@numba.njit(**OPTIONS)
@no_type_check
def outer(A, X, G):
    """G += A Xᵀ, summed over the lanes; G, of a multiple of four columns, says how much is wanted.

    Four rows and columns at a time; the rows that are left one by one.
    """
    widest()
    rows, width = G.shape
    fours = rows // 4 * 4
    for i in range(0, fours, 4):
        for j in range(0, width, 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = A.dtype.type(0)
            c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = A.dtype.type(0)
            for lane in range(LANES):
                a, b, c, d = A[i, lane], A[i + 1, lane], A[i + 2, lane], A[i + 3, lane]
                x0, x1, x2, x3 = X[j, lane], X[j + 1, lane], X[j + 2, lane], X[j + 3, lane]
                a0, a1, a2, a3 = a0 + a * x0, a1 + a * x1, a2 + a * x2, a3 + a * x3
                b0, b1, b2, b3 = b0 + b * x0, b1 + b * x1, b2 + b * x2, b3 + b * x3
                c0, c1, c2, c3 = c0 + c * x0, c1 + c * x1, c2 + c * x2, c3 + c * x3
                d0, d1, d2, d3 = d0 + d * x0, d1 + d * x1, d2 + d * x2, d3 + d * x3
            for row, found in enumerate(
                ((a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3))
            ):
                for column in range(4):
                    G[i + row, j + column] += found[column]
    for i in range(fours, rows):
        for j in range(0, width, 4):
            a0 = a1 = a2 = a3 = A.dtype.type(0)
            for lane in range(LANES):
                a = A[i, lane]
                a0, a1 = a0 + a * X[j, lane], a1 + a * X[j + 1, lane]
                a2, a3 = a2 + a * X[j + 2, lane], a3 + a * X[j + 3, lane]
            for column, found in enumerate((a0, a1, a2, a3)):
                G[i, j + column] += found


@numba.njit(**OPTIONS)
@no_type_check
def row_sums(A, g):
    """g += the sums of A's rows over the lanes."""
    widest()
    for i in range(len(g)):
        s = A.dtype.type(0)
        for lane in range(LANES):
            s += A[i, lane]
        g[i] += s


@numba.njit(**OPTIONS)
@no_type_check
def relu_backward(d_h, h, d):
    widest()
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
    widest()
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
        for lane in range(LANES):
            change = gain[j] * d_z[j, lane]
            d_z[j, lane] = change
            mean[lane] += share * change
            along[lane] += share * change * x_hat[j, lane]
    for j in range(d):
        for lane in range(LANES):
            change = d_z[j, lane] - mean[lane] - x_hat[j, lane] * along[lane]
            d_x[j, lane] += inverse_sigma[lane] * change
