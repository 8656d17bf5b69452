"""Loss and gradients of the majority model over a batch of count vectors, in one pass.

A position's output depends on its class c and on the sequence's counts n alone, so a sequence has
as many different positions as it has classes, and the one of class c counts n_c times. With the
scores S and the values v of the classes, attention's output for a query of class c is

    o_c = Σ_k n_k e^{S_ck} v_k / Σ_k n_k e^{S_ck},

numerator and denominator being one small matrix M_c (rows: the d coordinates of e^{S_ck} v_k, and
e^{S_ck} itself) times n. The kernel gathers the pairs (sequence, class) class by class, takes them
in tiles of LANES, side by side in memory, through the rest of the layer and back, and adds up the
gradients with respect to M_c and all later weights. What lies before M_c, the scores of a few
classes, is shared by the whole batch and left to autograd (`majority_training`).

Matrix products run over the lanes, eight or four columns at a time; that is what the padding of
`Weights` is for. The arrays' dtype, float32 or float64, is that of the arithmetic; the loss is
summed over tiles in float64. `no_type_check` keeps the tests' shape checker away from the functions
that numba compiles.
"""

from __future__ import annotations

import math
from typing import NamedTuple, no_type_check

import numba
import numpy as np
from numba import types
from numba.extending import overload

from lnattn.studies.vectorised import exp as _exp_single

#: Pairs that are computed side by side: their activations stay in the first-level cache.
LANES = 256
#: Numbers from one row of activations to the next: not a power of two, or rows would compete for
#: the same lines of the cache.
_SPAN = LANES + 16

#: Licence to reorder sums and to fuse multiplications; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
#: With numba's own error model every division would be a branch, and no loop with one a vector's.
_OPTIONS = {"nogil": True, "cache": True, "fastmath": _FAST, "error_model": "numpy"}

_F = np.float32
#: The bits of √½ in single precision.
_SQRT_HALF = np.int32(0x3F3504F3)


class Weights(NamedTuple):
    """What one call reads. Columns are padded with zeros to a multiple of four (d̄, C̄).

    mix: M_c, [C, d + 1, C̄], its last row the denominators; start: embedding plus attention's
    output bias, [C, d]; embedding: [C, d̄], and transposed [d, C̄]; W1, W2, W1_T, W2_T: [d, d̄];
    b1, b2, gain, shift: [d].
    """

    mix: np.ndarray
    start: np.ndarray
    embedding: np.ndarray
    embedding_T: np.ndarray
    W1: np.ndarray
    b1: np.ndarray
    W1_T: np.ndarray
    W2: np.ndarray
    b2: np.ndarray
    W2_T: np.ndarray
    gain: np.ndarray
    shift: np.ndarray


class Gradients(NamedTuple):
    """What one call adds to; shapes as in `Weights`. embedding: only through the logits."""

    mix: np.ndarray
    start: np.ndarray
    embedding: np.ndarray
    W1: np.ndarray
    b1: np.ndarray
    W2: np.ndarray
    b2: np.ndarray
    gain: np.ndarray
    shift: np.ndarray


def padded(size: int) -> int:
    """The next multiple of four."""
    return -(-size // 4) * 4


@no_type_check
def _exp(x):
    """e^x in the precision of x; numba takes the version that suits its dtype."""
    return math.exp(x)


@overload(_exp, inline="always")
@no_type_check
def _exp_for(x):
    if x == types.float32:
        return lambda x: _exp_single(x)
    return lambda x: math.exp(x)


@no_type_check
def _log(x):
    """log x for x ≥ 1 in the precision of x."""
    return math.log(x)


@overload(_log, inline="always")
@no_type_check
def _log_for(x):
    if x == types.float32:
        return lambda x: _log_single(x)
    return lambda x: math.log(x)


@numba.njit(fastmath=_FAST, inline="always")
@no_type_check
def _log_single(x):
    """log x in single precision, written so that it vectorises.

    x = m · 2^k with m in [√½, √2); log m = 2 artanh s with s = (m − 1)/(m + 1), |s| < 0.172.
    """
    # Integers of two 32-bit numbers become 64-bit ones in numba, hence the many conversions.
    bits = np.int32(np.float32(x).view(np.int32) - _SQRT_HALF)
    k = np.int32(bits >> np.int32(23))
    m = np.int32(np.int32(bits & np.int32(0x7FFFFF)) + _SQRT_HALF).view(np.float32)
    s = (m - _F(1)) / (m + _F(1))
    t = s * s
    series = _F(2 / 9)
    series = series * t + _F(2 / 7)
    series = series * t + _F(2 / 5)
    series = series * t + _F(2 / 3)
    series = series * t + _F(2)
    return _F(k) * _F(0.6931471805599453) + s * series


@numba.njit(**_OPTIONS)
@no_type_check
def loss_and_gradients(counts, labels, batch, weights, gradients, scale, train):
    """Sum of losses in nats and of right answers, over all positions of the batch's sequences.

    counts: [example, classes] uint8; labels: [example]; batch: the examples' row numbers. Adds
    scale · ∂loss/∂· to `gradients` where `train` is true. An answer is right where no logit
    exceeds the label's.
    """
    classes = counts.shape[1]
    w = weights
    vectors, members, sizes = _by_class(counts, batch, w.mix)
    wide, d = w.embedding.shape[1], w.start.shape[1]
    n = np.zeros((w.mix.shape[2], _SPAN), w.mix.dtype)
    mixed = np.zeros((d + 1, _SPAN), w.mix.dtype)  # numerators, then the denominator
    x = np.zeros((wide, _SPAN), w.mix.dtype)
    x_hat, z, h, out = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    d_out, d_h, d_z = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    logits = np.zeros_like(n)
    weight = np.zeros(LANES, w.mix.dtype)
    inverse = np.zeros(LANES, w.mix.dtype)
    inverse_sigma = np.zeros(LANES, w.mix.dtype)
    one, other = np.zeros(LANES, w.mix.dtype), np.zeros(LANES, w.mix.dtype)  # scratch
    label = np.zeros(LANES, np.int64)
    nothing = np.zeros(max(classes, d + 1), w.mix.dtype)
    total, right = 0.0, 0.0
    for c in range(classes):
        for first in range(0, sizes[c], LANES):
            _gather(vectors, members[c], first, sizes[c], n)
            _gather_labels(batch, labels, members[c], first, sizes[c], n[c], label, weight)
            _affine(w.mix[c], nothing, n, mixed)
            _divide_and_add(mixed, w.start[c], inverse, x)
            _standardise(x, w.gain, w.shift, x_hat, inverse_sigma, z, one)
            _affine(w.W1, w.b1, z, h)
            _relu(h, d)
            _affine(w.W2, w.b2, h, out)
            _add(out, x, d)
            _affine(w.embedding, nothing, out, logits)
            tile_loss, tile_right = _softmax(logits, classes, label, weight, scale, one, other)
            total += tile_loss
            right += tile_right
            if not train:
                continue
            g = gradients
            _affine(w.embedding_T, nothing, logits, d_out)
            _outer(logits, out, g.embedding)
            _outer(d_out, h, g.W2)
            _row_sums(d_out, g.b2)
            _affine(w.W2_T, nothing, d_out, d_h)
            _relu_backward(d_h, h, d)
            _outer(d_h, z, g.W1)
            _row_sums(d_h, g.b1)
            _affine(w.W1_T, nothing, d_h, d_z)
            _standardise_backward(
                d_z, x_hat, inverse_sigma, w.gain, d_out, g.gain, g.shift, one, other
            )
            _row_sums(d_out, g.start[c])
            _mix_backward(d_out, mixed, inverse)
            _outer(mixed, n, g.mix[c])
    return total, right


@numba.njit(**_OPTIONS)
@no_type_check
def _by_class(counts, batch, like):
    """The batch's counts as numbers of the weights' dtype, and who has each class."""
    size, classes = len(batch), counts.shape[1]
    vectors = np.empty((size, classes), like.dtype)
    members = np.empty((classes, size), np.int32)
    sizes = np.zeros(classes, np.int64)
    for i in range(size):
        row = counts[batch[i]]
        for c in range(classes):
            vectors[i, c] = row[c]
            # Written always, kept only if the class occurs: no branch to mispredict.
            members[c, sizes[c]] = i
            sizes[c] += row[c] > 0
    return vectors, members, sizes


@numba.njit(**_OPTIONS)
@no_type_check
def _gather(vectors, members, first, size, n):
    """Counts of LANES pairs, one a column; columns beyond the last pair repeat the first."""
    classes = vectors.shape[1]
    for lane in range(LANES):
        vector = vectors[members[first + lane if first + lane < size else first]]
        for k in range(classes):
            n[k, lane] = vector[k]


@numba.njit(**_OPTIONS)
@no_type_check
def _gather_labels(batch, labels, members, first, size, own, label, weight):
    """Labels of the same pairs, and how often each counts; 0 beyond the last pair."""
    for lane in range(LANES):
        there = first + lane < size
        label[lane] = labels[batch[members[first + lane if there else first]]]
        weight[lane] = own[lane] if there else own.dtype.type(0)


@numba.njit(**_OPTIONS)
@no_type_check
def _divide_and_add(mixed, start, inverse, x):
    """Numerators become o = numerator/denominator, and x = o + start."""
    d, one = len(start), x.dtype.type(1)
    for lane in range(LANES):
        inverse[lane] = one / mixed[d, lane]
    for j in range(d):
        for lane in range(LANES):
            mixed[j, lane] *= inverse[lane]
        for lane in range(LANES):
            x[j, lane] = mixed[j, lane] + start[j]


@numba.njit(**_OPTIONS)
@no_type_check
def _relu(h, d):
    zero = h.dtype.type(0)
    for j in range(d):
        for lane in range(LANES):
            h[j, lane] = max(h[j, lane], zero)


@numba.njit(**_OPTIONS)
@no_type_check
def _relu_backward(d_h, h, d):
    zero = h.dtype.type(0)
    for j in range(d):
        for lane in range(LANES):
            d_h[j, lane] = d_h[j, lane] if h[j, lane] > zero else zero


@numba.njit(**_OPTIONS)
@no_type_check
def _add(y, x, d):
    for j in range(d):
        for lane in range(LANES):
            y[j, lane] += x[j, lane]


@numba.njit(**_OPTIONS)
@no_type_check
def _affine(W, bias, X, Y):
    """Y = W X + bias, column by column of the lanes; W's width is a multiple of four."""
    rows, width = W.shape
    eights = width // 8 * 8
    for i in range(rows):
        start = bias[i]
        for lane in range(LANES):
            Y[i, lane] = start
        for j in range(0, eights, 8):
            w0, w1, w2, w3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
            w4, w5, w6, w7 = W[i, j + 4], W[i, j + 5], W[i, j + 6], W[i, j + 7]
            for lane in range(LANES):
                low = w0 * X[j, lane] + w1 * X[j + 1, lane]
                low += w2 * X[j + 2, lane] + w3 * X[j + 3, lane]
                high = w4 * X[j + 4, lane] + w5 * X[j + 5, lane]
                high += w6 * X[j + 6, lane] + w7 * X[j + 7, lane]
                Y[i, lane] += low + high
        for j in range(eights, width, 4):
            w0, w1, w2, w3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
            for lane in range(LANES):
                low = w0 * X[j, lane] + w1 * X[j + 1, lane]
                Y[i, lane] += low + (w2 * X[j + 2, lane] + w3 * X[j + 3, lane])


@numba.njit(**_OPTIONS)
@no_type_check
def _outer(A, X, G):
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


@numba.njit(**_OPTIONS)
@no_type_check
def _row_sums(A, g):
    """g += the sums of A's rows over the lanes."""
    for i in range(len(g)):
        s = A.dtype.type(0)
        for lane in range(LANES):
            s += A[i, lane]
        g[i] += s


@numba.njit(**_OPTIONS)
@no_type_check
def _standardise(x, gain, shift, x_hat, inverse_sigma, z, mean):
    """LayerNorm with gain and shift, and its parts for the way back; `mean` is scratch."""
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


@numba.njit(**_OPTIONS)
@no_type_check
def _standardise_backward(d_z, x_hat, inverse_sigma, gain, d_x, g_gain, g_shift, mean, along):
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


@numba.njit(**_OPTIONS)
@no_type_check
def _mix_backward(d_x, mixed, inverse):
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


@numba.njit(**_OPTIONS)
@no_type_check
def _softmax(logits, classes, label, weight, scale, highest, total):
    """Cross-entropy and right answers of a tile; logits become scale · weight · (p − one-hot).

    highest and total are scratch.
    """
    zero = logits.dtype.type(0)
    for lane in range(LANES):
        highest[lane] = logits[0, lane]
        total[lane] = zero
    for k in range(1, classes):
        for lane in range(LANES):
            highest[lane] = max(highest[lane], logits[k, lane])
    loss = right = zero
    for lane in range(LANES):
        target = logits[label[lane], lane]
        loss += weight[lane] * (highest[lane] - target)
        right += weight[lane] if target >= highest[lane] else zero
    for k in range(classes):
        for lane in range(LANES):
            logits[k, lane] = _exp(logits[k, lane] - highest[lane])
        for lane in range(LANES):
            total[lane] += logits[k, lane]
    for lane in range(LANES):
        loss += weight[lane] * _log(total[lane])
    for lane in range(LANES):
        weight[lane] *= scale
    for lane in range(LANES):
        total[lane] = weight[lane] / total[lane]
    for k in range(classes):
        for lane in range(LANES):
            logits[k, lane] *= total[lane]
    for lane in range(LANES):
        logits[label[lane], lane] -= weight[lane]
    return loss, right
