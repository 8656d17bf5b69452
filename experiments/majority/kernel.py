"""One batch of the majority model in count space, forward and backward, compiled by numba.

All positions of one class have the same output, so the work is done once for each pair of a
sequence and a class c that occurs in it, n_c times. What does not depend on the sequence is in
`Weights`, where gain, bias and all that attention adds to are folded into the next matrix. With
counts n, W_c = `mixing[c]` and 1 below what a bias is added to, a pair's loss is::

    [Z x; Z] = W_cᵀ n      x̂ = (x − mean x)/σ(x)      h = max(W_1 [x̂; 1], 0)
    y = x + W_2 [h; 1]     ℓ = E y                    p = softmax(ℓ)     −n_c log p_label

and that of the batch their sum by N = Σ n_c. Pairs of one class are columns, `BLOCK` at a time, and
each line of `_backward` is the derivative of a line of `_forward`, last first. The oracle is
`train.evaluate`. Numba is allowed no fast mathematics: a function gives the same bits wherever it
is inlined, and so in a process that compiles it as in one that finds it on disk.
"""

from __future__ import annotations

import math
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, UInt8

from lnattn.compiled import compiled, in_threads, thread_count

#: Pairs in a block: few enough for a quarter of a second cache of 1 MiB, and for BLAS not to start
#: threads of its own at the paper's sizes.
BLOCK = 512
_LN_2 = np.float32(math.log(2))
_PER_LN_2 = np.float32(1 / math.log(2))
_ONE = np.float32(1)
#: The bits of √½, in float32.
_BITS_OF_ROOT = np.float32(math.sqrt(0.5)).view(np.int32)
#: The last term of the series of e^r, 1/8!.
_LAST = np.float32(1 / math.factorial(8))


class Weights(NamedTuple):
    """What a pair is computed with, float32; the gradients are another one of these.

    mixing: w_ck [v_k + e_c + b_O; 1] with attention's weight w_ck = e^{S_ck}, of [query key]. W_1
    has LayerNorm's gain and bias in it, and rows with a mean of 0, as what they are multiplied with
    has; the last column of W_1 and W_2 is the bias.
    """

    embedding: Float[np.ndarray, "classes d"]
    mixing: Float[np.ndarray, "classes classes d+1"]
    W_1: Float[np.ndarray, "d d+1"]
    W_2: Float[np.ndarray, "d d+1"]


def batch_loss(
    model: Weights, counts: UInt8[np.ndarray, "batch classes"], *, gradients: bool
) -> tuple[float, float, Weights]:
    """Mean loss in nats, share of right positions, and the gradients of the loss (0 unless asked).

    counts: how often each class occurs; the label is the most frequent one.
    """
    threads = thread_count(len(counts) // 64)
    sums = np.zeros((threads, 3))
    by_thread = Weights._make(np.zeros((threads, *part.shape), np.float32) for part in model)

    def share(thread: int) -> None:
        rows = slice(len(counts) * thread // threads, len(counts) * (thread + 1) // threads)
        of_thread = Weights._make(part[thread] for part in by_thread)
        _add_pairs(model, counts[rows].T.copy(), gradients, of_thread, sums[thread])

    in_threads(share, threads)
    loss, right, total = sums.sum(axis=0).tolist()
    mean_gradients = Weights._make(part.sum(axis=0) / np.float32(total) for part in by_thread)
    return loss / total, right / total, mean_gradients


@compiled(error_model="numpy")
@no_type_check
def _add_pairs(model, counts, with_gradients, gradients, sums):
    """Add loss, right positions and positions of all pairs to sums, and the loss's gradients.

    counts: [class sequence], so that a pair's counts are read from as many runs of memory; uint8,
    as they are kept, so that all of them stay in cache.
    """
    classes, rows = counts.shape
    labels = _most_frequent(counts)
    holders = np.empty(rows, np.uint32)
    for c in range(classes):
        pairs = 0
        for row in range(rows):  # no branch: a processor guesses wrong which classes occur
            holders[pairs] = row
            pairs += counts[c, row] > 0
        for start in range(0, pairs, BLOCK):
            block = holders[start : min(start + BLOCK, pairs)]
            n = np.empty((classes, len(block)), np.float32)
            for k in range(classes):
                for p in range(len(block)):
                    n[k, p] = counts[k, block[p]]
            forward = _forward(model, c, n)
            d_logits = forward[-1]
            _softmax(d_logits, labels[block], n[c], sums)
            if with_gradients:
                _backward(model, c, n, forward, gradients)


@compiled(error_model="numpy")
@no_type_check
def _most_frequent(counts):
    """The most frequent class of each sequence, the first one of equals."""
    classes, rows = counts.shape
    label = np.zeros(rows, np.int64)
    most = counts[0].copy()
    for k in range(1, classes):
        for row in range(rows):
            label[row] = k if counts[k, row] > most[row] else label[row]
            most[row] = max(most[row], counts[k, row])
    return label


@compiled(error_model="numpy")
@no_type_check
def _forward(model, c, n):
    """1/Z, x, 1/σ, [x̂; 1], [h; 1], y and ℓ, pairs last, of pairs of class c with counts n."""
    d = model.embedding.shape[1]
    pairs = n.shape[1]
    mixed = np.dot(model.mixing[c].T, n)
    per_Z = 1 / mixed[d]
    x = mixed[:d]
    unit = np.ones_like(mixed)
    mean = np.zeros_like(per_Z)
    squares = np.zeros_like(per_Z)
    share = np.float32(1 / d)
    for j in range(d):
        for p in range(pairs):
            x[j, p] *= per_Z[p]
            mean[p] += share * x[j, p]
    for j in range(d):
        for p in range(pairs):
            unit[j, p] = x[j, p] - mean[p]
            squares[p] += unit[j, p] * unit[j, p]
    per_sigma = 1 / np.sqrt(share * squares)
    for j in range(d):
        for p in range(pairs):
            unit[j, p] *= per_sigma[p]
    hidden = np.ones_like(mixed)
    np.dot(model.W_1, unit, hidden[:d])
    for j in range(d):
        for p in range(pairs):
            hidden[j, p] = max(hidden[j, p], np.float32(0))
    y = np.dot(model.W_2, hidden)
    y += x
    return per_Z, x, per_sigma, unit, hidden, y, np.dot(model.embedding, y)


@compiled(error_model="numpy")
@no_type_check
def _softmax(logits, label, times, sums):
    """Add to the sums; logits become their own gradients, n_c (p − 1 at the label)."""
    classes, pairs = logits.shape
    largest = logits[0].copy()
    for k in range(1, classes):
        for p in range(pairs):
            largest[p] = max(largest[p], logits[k, p])
    score = np.empty_like(largest)
    right = np.empty_like(largest)
    for p in range(pairs):
        score[p] = logits[label[p], p] - largest[p]
        right[p] = score[p] >= 0
    total = np.zeros_like(largest)
    for k in range(classes):
        for p in range(pairs):
            logits[k, p] = _exponential(logits[k, p] - largest[p])
            total[p] += logits[k, p]
    loss = np.empty_like(largest)
    for p in range(pairs):
        loss[p] = _logarithm(total[p]) - score[p]
    sums[0] += np.dot(times, loss)
    sums[1] += np.dot(times, right)
    sums[2] += times.sum()
    factor = times / total
    for k in range(classes):
        for p in range(pairs):
            logits[k, p] *= factor[p]
    for p in range(pairs):
        logits[label[p], p] -= times[p]


@compiled(error_model="numpy")
@no_type_check
def _backward(model, c, n, forward, gradients):
    """Add the gradients of pairs of class c, from those of their logits."""
    per_Z, x, per_sigma, unit, hidden, y, d_logits = forward
    d, pairs = x.shape
    gradients.embedding[:] += np.dot(d_logits, y.T)  # ℓ = E y
    d_y = np.dot(model.embedding.T, d_logits)
    gradients.W_2[:] += np.dot(d_y, hidden.T)  # y = x + W_2 [h; 1]
    d_hidden = np.dot(model.W_2.T, d_y)
    for j in range(d):  # h = max(W_1 [x̂; 1], 0)
        for p in range(pairs):
            d_hidden[j, p] = d_hidden[j, p] if hidden[j, p] > 0 else np.float32(0)
    gradients.W_1[:] += np.dot(d_hidden[:d], unit.T)
    d_mixed = np.dot(model.W_1.T, d_hidden[:d])
    along = np.zeros_like(per_Z)
    share = np.float32(1 / d)
    for j in range(d):  # x̂ = (x − mean x)/σ(x), and W_1ᵀ gives a mean of 0
        for p in range(pairs):
            along[p] += share * d_mixed[j, p] * unit[j, p]
    d_Z = np.zeros_like(per_Z)
    for j in range(d):
        for p in range(pairs):
            d_mixed[j, p] -= unit[j, p] * along[p]
        for p in range(pairs):  # [Z x; Z] = W_cᵀ n
            d_mixed[j, p] = (d_y[j, p] + d_mixed[j, p] * per_sigma[p]) * per_Z[p]
        for p in range(pairs):
            d_Z[p] -= d_mixed[j, p] * x[j, p]
    d_mixed[d] = d_Z
    gradients.mixing[c] += np.dot(n, d_mixed.T)


# e^x and ln x of single precision, written out so that loops around them take many at a time.


@compiled(error_model="numpy")
@no_type_check
def _exponential(x):
    """e^x of a float32 below 88, to a few units in its last digit; 10^−38 for all below −87."""
    x = max(x, np.float32(-87))
    k = np.floor(x * _PER_LN_2 + np.float32(0.5))
    r = x - k * _LN_2
    return _power_of_two(k) * (_ONE + r + _tail(r))


@compiled(error_model="numpy")
@no_type_check
def _logarithm(x):
    """ln x of a normal float32 above 0, to a few units in its last digit.

    With x = 2^k m and m between √½ and √2: k ln 2 + 2 (t + t³/3 + t⁵/5 + …), t = (m − 1)/(m + 1).
    """
    bits = np.float32(x).view(np.int32)
    k = (bits - _BITS_OF_ROOT) >> np.int32(23)
    m = np.int32(bits - (k << np.int32(23))).view(np.float32)
    t = (m - _ONE) / (m + _ONE)
    series = np.float32(1 / 9)
    for i in range(7, 1, -2):
        series = np.float32(1 / i) + series * t * t
    return np.float32(k) * _LN_2 + np.float32(2) * (t + series * t * t * t)


@compiled(error_model="numpy")
@no_type_check
def _tail(r):
    """e^r − 1 − r = r²/2! + … + r^8/8!, for small r."""
    term = series = _LAST
    for i in range(8, 2, -1):
        term *= np.float32(i)
        series = term + series * r
    return series * r * r


@compiled(error_model="numpy")
@no_type_check
def _power_of_two(k):
    """2^k for a whole number k in float32, −126 … 127."""
    return np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
