"""One batch of the majority model in count space, forward and backward, as plain compiled loops.

All positions of one class have the same output, so the work is done once for each pair of a
sequence and a class c that occurs in it, n_c times. What does not depend on the sequence is in
`Weights`; with the attention weights w_ck = e^{S_ck} and the products u_ck = w_ck v_k::

    Z = Σ_k n_k w_ck            a = Σ_k n_k u_ck / Z            x = e_c + a + b_O
    x̂ = (x − mean x)/σ(x)       z = γ x̂ + β                     h = max(W_1 z + b_1, 0)
    y = x + W_2 h + b_2         ℓ_k = e_k · y                   p = softmax(ℓ)

and the loss is −Σ n_c log p_label / N over all pairs, N = Σ n_c. Each line of `_backward` is the
derivative of one of these, last first. Pairs of one class are taken `BLOCK` at a time, and the
inner loops run over them. The oracle is `train.evaluate`; `no_type_check`: numba compiles these.
"""

from __future__ import annotations

import math
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int, UInt8

from lnattn.compiled import compiled, in_threads, thread_count

#: Sums may be taken in another order; but what is not a number stays so, for the trainer to see.
_FAST = {"reassoc", "contract", "arcp", "nsz"}
#: Pairs in a block: all that is computed of them stays in the first cache.
BLOCK = 64


class Weights(NamedTuple):
    """What a pair is computed with, float32; the gradients are another one of these.

    weights, products: of [query key]; W_1, W_2: [in out].
    """

    embedding: Float[np.ndarray, "classes d"]
    weights: Float[np.ndarray, "classes classes 1"]
    products: Float[np.ndarray, "classes classes d"]
    b_O: Float[np.ndarray, "d"]
    gain: Float[np.ndarray, "d"]
    bias: Float[np.ndarray, "d"]
    W_1: Float[np.ndarray, "d d"]
    b_1: Float[np.ndarray, "d"]
    W_2: Float[np.ndarray, "d d"]
    b_2: Float[np.ndarray, "d"]


class Block(NamedTuple):
    """A block of pairs with one class, by the names of the equations; float32 but for `label`.

    counts: of the sequences; times: how often the class occurs. logits: at last their gradients.
    """

    counts: Float[np.ndarray, "classes pair"]
    times: Float[np.ndarray, "pair"]
    label: Int[np.ndarray, "pair"]
    Z: Float[np.ndarray, "1 pair"]
    a: Float[np.ndarray, "d pair"]
    unit: Float[np.ndarray, "d pair"]
    sigma: Float[np.ndarray, "pair"]
    z: Float[np.ndarray, "d pair"]
    h: Float[np.ndarray, "d pair"]
    y: Float[np.ndarray, "d pair"]
    logits: Float[np.ndarray, "classes pair"]
    d_Z: Float[np.ndarray, "1 pair"]
    d_y: Float[np.ndarray, "d pair"]
    d_z: Float[np.ndarray, "d pair"]
    d_h: Float[np.ndarray, "d pair"]


def _empty_block(classes: int, d: int) -> Block:
    """Room for a block; the pairs that are never filled have counts of 1."""

    def rows(number: int) -> np.ndarray:
        return np.ones((number, BLOCK), np.float32)

    return Block(
        counts=rows(classes),
        times=np.ones(BLOCK, np.float32),
        label=np.zeros(BLOCK, np.int64),
        Z=rows(1),
        a=rows(d),
        unit=rows(d),
        sigma=np.ones(BLOCK, np.float32),
        z=rows(d),
        h=rows(d),
        y=rows(d),
        logits=rows(classes),
        d_Z=rows(1),
        d_y=rows(d),
        d_z=rows(d),
        d_h=rows(d),
    )


def batch_loss(
    model: Weights, counts: UInt8[np.ndarray, "batch classes"], *, gradients: bool
) -> tuple[float, float, Weights]:
    """Mean loss in nats, share of right positions, and the gradients of the loss (0 unless asked).

    counts: how often each class occurs; the label is the most frequent one.
    """
    threads = thread_count(len(counts) // BLOCK)
    sums = np.zeros((threads, 2))
    by_thread = [Weights._make(map(np.zeros_like, model)) for _ in range(threads)]
    labels = counts.argmax(axis=1)
    total = counts.sum(dtype=np.int64)
    scale = np.float32(1 / total if gradients else 0)
    transposed = np.ascontiguousarray(model.embedding.T)

    def share(thread: int) -> None:
        rows = slice(len(counts) * thread // threads, len(counts) * (thread + 1) // threads)
        part = counts[rows], labels[rows]
        classes, d = model.embedding.shape
        block = _empty_block(classes, d)
        _pairs(model, transposed, part, scale, block, by_thread[thread], sums[thread])

    in_threads(share, threads)
    loss, right = (sums.sum(axis=0) / total).tolist()
    summed = Weights._make(np.sum(parts, axis=0) for parts in zip(*by_thread, strict=True))
    return loss, right, summed


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _pairs(model, transposed, examples, scale, block, gradients, sums):
    """Add loss and right positions of all pairs to sums; gradients times scale, unless that is 0.

    examples: counts and labels. Of the last block of a class the pairs that are left over count 0
    times.
    """
    counts, labels = examples
    for c in range(len(model.embedding)):
        filled = 0
        for s in range(len(counts) + 1):
            if s < len(counts) and counts[s, c]:
                for k in range(len(model.embedding)):
                    block.counts[k, filled] = counts[s, k]
                block.times[filled] = counts[s, c]
                block.label[filled] = labels[s]
                filled += 1
            if filled == BLOCK or (filled and s == len(counts)):
                block.times[filled:] = 0
                _forward(model, transposed, c, block)
                _softmax(block, scale, sums)
                if scale > 0:
                    _backward(model, c, block, gradients)
                filled = 0


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _forward(model, transposed, c, block):
    """Fill a block of pairs with class c, up to the logits."""
    a = block.a
    unit = block.unit
    z = block.z
    h = block.h
    y = block.y
    Z = block.Z
    mean = block.d_Z  # free until the gradients
    variance = block.sigma
    d = len(y)
    share = np.float32(1 / len(y))
    Z[:] = 0
    a[:] = 0
    mean[:] = 0
    variance[:] = 0
    block.logits[:] = 0
    _multiply(model.weights[c], block.counts, Z)
    _multiply(model.products[c], block.counts, a)
    for j in range(d):
        start = model.embedding[c, j] + model.b_O[j]
        for p in range(BLOCK):
            a[j, p] /= Z[0, p]
            y[j, p] = start + a[j, p]
            mean[0, p] += share * y[j, p]
    for j in range(d):
        for p in range(BLOCK):
            unit[j, p] = y[j, p] - mean[0, p]
            variance[p] += share * unit[j, p] * unit[j, p]
    for p in range(BLOCK):
        block.sigma[p] = math.sqrt(variance[p])
    for j in range(d):
        gain = model.gain[j]
        bias = model.bias[j]
        b_1 = model.b_1[j]
        b_2 = model.b_2[j]
        for p in range(BLOCK):
            unit[j, p] /= block.sigma[p]
            z[j, p] = gain * unit[j, p] + bias
            h[j, p] = b_1
            y[j, p] += b_2
    _multiply(model.W_1, z, h)
    for j in range(d):
        for p in range(BLOCK):
            h[j, p] = max(h[j, p], np.float32(0))
    _multiply(model.W_2, h, y)
    _multiply(transposed, y, block.logits)


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _softmax(block, scale, sums):
    """Add to the sums; logits become their own gradients, scale n_c (p − 1 at the label)."""
    logits = block.logits
    times = block.times
    label = block.label
    classes = len(logits)
    largest = logits[0].copy()
    score = np.empty_like(largest)
    total = np.zeros_like(largest)
    for k in range(classes):
        for p in range(BLOCK):
            largest[p] = max(largest[p], logits[k, p])
    for p in range(BLOCK):
        score[p] = logits[label[p], p] - largest[p]
    for k in range(classes):
        for p in range(BLOCK):
            logits[k, p] = _exponential(logits[k, p] - largest[p])
            total[p] += logits[k, p]
    for p in range(BLOCK):
        sums[0] += times[p] * (math.log(total[p]) - score[p])
        sums[1] += times[p] * (score[p] >= 0)
        total[p] = scale * times[p] / total[p]
    for k in range(classes):
        for p in range(BLOCK):
            logits[k, p] *= total[p]
    for p in range(BLOCK):
        logits[label[p], p] -= scale * times[p]


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _backward(model, c, block, gradients):
    """Add the gradients of a block of pairs, from those of its logits."""
    Z = block.Z
    a = block.a
    unit = block.unit
    h = block.h
    sigma = block.sigma
    d_Z = block.d_Z
    d_y = block.d_y
    d_z = block.d_z
    d_h = block.d_h
    d = len(h)
    share = np.float32(1 / len(h))
    d_Z[:] = 0
    d_y[:] = 0
    d_z[:] = 0
    d_h[:] = 0
    _correlate(block.logits, block.y, gradients.embedding)  # ℓ_k = e_k · y
    _multiply(model.embedding, block.logits, d_y)
    _correlate(h, d_y, gradients.W_2)  # y = x + W_2 h + b_2
    _add_up(d_y, gradients.b_2)
    _multiply(model.W_2.T, d_y, d_h)
    for j in range(d):  # h = max(W_1 z + b_1, 0)
        for p in range(BLOCK):
            d_h[j, p] = d_h[j, p] if h[j, p] > 0 else np.float32(0)
    _correlate(block.z, d_h, gradients.W_1)
    _add_up(d_h, gradients.b_1)
    _multiply(model.W_1.T, d_h, d_z)
    _add_up(d_z, gradients.bias)  # z = γ x̂ + β
    mean = np.zeros_like(sigma)
    along = np.zeros_like(sigma)
    for j in range(d):
        gain = model.gain[j]
        by_gain = np.float32(0)
        for p in range(BLOCK):
            by_gain += d_z[j, p] * unit[j, p]
            d_z[j, p] *= gain
        gradients.gain[j] += by_gain
        for p in range(BLOCK):
            mean[p] += share * d_z[j, p]
            along[p] += share * d_z[j, p] * unit[j, p]
    for j in range(d):  # x̂ = (x − mean x)/σ(x)
        for p in range(BLOCK):
            d_y[j, p] += (d_z[j, p] - mean[p] - unit[j, p] * along[p]) / sigma[p]
    _add_up(d_y, gradients.embedding[c])  # x = e_c + a + b_O
    _add_up(d_y, gradients.b_O)
    for j in range(d):  # a = Σ n_k u_ck / Z
        for p in range(BLOCK):
            d_y[j, p] /= Z[0, p]
            d_Z[0, p] -= d_y[j, p] * a[j, p]
    _correlate(block.counts, d_Z, gradients.weights[c])
    _correlate(block.counts, d_y, gradients.products[c])


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _multiply(W, x, y):
    """y[j] += Σ_i W[i, j] x[i] in every pair: W [in out], x [in pair], y [out pair]."""
    for j in range(len(y)):
        for i in range(len(x)):
            for p in range(BLOCK):
                y[j, p] += W[i, j] * x[i, p]


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _correlate(x, y, W):
    """W[i, j] += Σ x[i] y[j] over the pairs: the gradient of `_multiply` by W."""
    for i in range(len(x)):
        for j in range(len(y)):
            total = np.float32(0)
            for p in range(BLOCK):
                total += x[i, p] * y[j, p]
            W[i, j] += total


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _add_up(x, total):
    """total[j] += Σ x[j] over the pairs: the gradient by a bias."""
    for j in range(len(x)):
        sum_of_row = np.float32(0)
        for p in range(BLOCK):
            sum_of_row += x[j, p]
        total[j] += sum_of_row


@compiled(fastmath=_FAST, error_model="numpy")
@no_type_check
def _exponential(x):
    """e^x for x ≤ 0 to float32's rounding: 2^k e^r with `|r| ≤ ln 2 / 2`, and the series of e^r.

    The library's cannot be compiled into the loop around it, which then takes one at a time.
    """
    x = max(x, np.float32(-87))
    k = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = (x - k * np.float32(0.693359375)) + k * np.float32(2.12194440e-4)
    series = np.float32(1 / 5040) * r + np.float32(1 / 720)
    series = (series * r + np.float32(1 / 120)) * r + np.float32(1 / 24)
    series = (series * r + np.float32(1 / 6)) * r + np.float32(1 / 2)
    series = (series * r + np.float32(1)) * r + np.float32(1)
    return series * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
