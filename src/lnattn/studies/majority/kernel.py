"""Loss and gradients of the majority model over a batch of count vectors, in one pass.

A position's output depends on its class c and on the sequence's counts n alone, so a sequence has
as many different positions as it has classes, and the one of class c counts n_c times. With the
scores S and the values v of the classes, attention's output for a query of class c is

    o_c = Σ_k n_k e^{S_ck} v_k / Σ_k n_k e^{S_ck},

numerator and denominator being one small matrix M_c (rows: the d coordinates of e^{S_ck} v_k, and
e^{S_ck} itself) times n. A piece is one class and a part of the batch. `work_on` lists the
sequences of that part that have the class, and takes them, `LANES` at a time, through the rest of
the layer and back (`steps`); `add_up` sums the gradients with respect to scores, values and all
later weights. What lies before, the scores of a few classes, is shared by the whole batch (`head`).

Threads take the next piece from a common counter. Every piece leaves its own sums, and they are
added in the order of the pieces: who worked on which changes no bit. The arrays' dtype, float32 or
float64, is that of the arithmetic; the loss is summed over pieces in float64.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np

from lnattn.numerics import threads, vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.threads import next_of
from lnattn.numerics.vectorised import on_cache_lines, widest
from lnattn.studies.majority import mixing, steps
from lnattn.studies.majority.mixing import (
    divide_and_add,
    gather,
    mix_backward,
    mixing_backward,
    mixing_matrix,
)
from lnattn.studies.majority.steps import (
    LANES,
    OPTIONS,
    SPAN,
    add,
    affine,
    outer,
    relu,
    relu_backward,
    row_sums,
    softmax,
    standardise,
    standardise_backward,
)

#: Sequences of a piece at most: enough that few of its last LANES are empty.
PIECE = 12 * LANES


class Weights(NamedTuple):
    """What one call reads. Columns are padded with zeros to a multiple of four (d̄, C̄).

    scores: S, [C, C]; values: v, [C, d]; start: embedding plus attention's output bias, [C, d];
    embedding: [C, d̄], and transposed [d, C̄]; W1, W2, W1_T, W2_T: [d, d̄];
    b1, b2, gain, shift: [d].
    """

    scores: np.ndarray
    values: np.ndarray
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
    """Shapes as in `Weights`, or one such array a piece. embedding: only through the logits."""

    scores: np.ndarray
    values: np.ndarray
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


def packed(counts: np.ndarray) -> np.ndarray:
    """Count vectors as the kernel reads them, int32 [example, word]: four counts a word.

    The last word is the example's label. counts: [example, C], uint8.
    """
    examples, classes = counts.shape
    four = np.zeros((examples, padded(classes)), np.uint8)
    four[:, :classes] = counts
    label = counts.argmax(axis=1).astype(np.int32)[:, None]
    return np.hstack([four.view("<i4").astype(np.int32), label])


def pieces(size: int, classes: int) -> int:
    """How many pieces a batch of so many sequences has: as many for every class."""
    return classes * -(-size // PIECE)


def sums_of(weights: Weights, pieces: int) -> Gradients:
    """Room for the gradients of so many pieces, not yet filled."""
    return Gradients(
        *(
            np.empty((pieces, *_per_piece(name, getattr(weights, name))), weights.scores.dtype)
            for name in Gradients._fields
        )
    )


def _per_piece(name: str, weight: np.ndarray) -> tuple[int, ...]:
    """A piece belongs to one class, so it has one row of scores and one start."""
    return weight.shape[1:] if name in ("scores", "start") else weight.shape


@numba.njit(**OPTIONS)
@no_type_check
def columns_of(examples, batch, words):
    """Fill words [word, batch] with the batch's rows of `packed`, side by side."""
    for i in range(len(batch)):
        for k in range(len(words)):
            words[k, i] = examples[batch[i], k]


@numba.njit(**OPTIONS)
@no_type_check
def having(c, words, first, last, members):
    """List the sequences from `first` to `last` that have class c, and return how many they are.

    LANES more members follow, repetitions of the first.
    """
    size, row, shift = 0, words[c >> 2], (c & 3) << 3
    for i in range(first, last):
        # Written always, kept only if the class occurs: no branch to mispredict.
        members[size] = i
        size += (row[i] >> shift) & 255 > 0
    members[size : size + LANES] = members[0]
    return size


@numba.njit(**OPTIONS)
@no_type_check
def work_on(words, weights, sums, found, scale, train, counter):
    """Take pieces from `counter` until there are none, and fill their rows of `found` and `sums`.

    found: [piece, 2], the sum of losses in nats and of right answers, both over positions; sums:
    where `train` is true, scale · ∂loss/∂·. An answer is right where no logit exceeds the label's.
    words: as from `columns_of`.
    """
    widest()
    w, g = weights, sums
    like, (classes, d), wide = w.values, w.values.shape, w.embedding.shape[1]
    columns, size = 4 * (len(words) - 1), words.shape[1]
    mix, g_mix = np.zeros((d + 1, columns), like.dtype), np.zeros((d + 1, columns), like.dtype)
    n, logits = on_cache_lines(columns, SPAN, like), on_cache_lines(columns, SPAN, like)
    mixed = on_cache_lines(d + 1, SPAN, like)  # numerators, then the denominator
    x, d_out = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    x_hat, z = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    h, d_h = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    out, d_z = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    single = on_cache_lines(5, SPAN, like)
    weight, inverse, inverse_sigma = single[0], single[1], single[2]
    one, other = single[3], single[4]  # scratch
    label, word = np.zeros(LANES, np.int64), on_cache_lines(1, SPAN, words)[0]
    members, parts = np.empty(PIECE + LANES, np.uint32), len(found) // classes
    nothing = np.zeros(max(classes, d + 1), like.dtype)
    t = next_of(counter)
    while t < len(found):
        c, part = t // parts, t % parts
        number = having(c, words, size * part // parts, size * (part + 1) // parts, members)
        found[t] = 0
        mixing_matrix(w.scores[c], w.values, mix)
        if train:
            for g_t in (g_mix, g.embedding[t], g.W1[t], g.W2[t]):
                g_t[:] = 0
            for g_t in (g.start[t], g.b1[t], g.b2[t], g.gain[t], g.shift[t]):
                g_t[:] = 0
        for first in range(0, number, LANES):
            gather(words, members, first, c, number - first, n, label, weight, word)
            affine(mix, nothing, n, mixed)
            divide_and_add(mixed, w.start[c], inverse, x)
            standardise(x, w.gain, w.shift, x_hat, inverse_sigma, z, one)
            affine(w.W1, w.b1, z, h)
            relu(h, d)
            affine(w.W2, w.b2, h, out)
            add(out, x, d)
            affine(w.embedding, nothing, out, logits)
            loss, right = softmax(logits, classes, label, weight, scale, one, other)
            found[t, 0] += loss
            found[t, 1] += right
            if not train:
                continue
            affine(w.embedding_T, nothing, logits, d_out)
            outer(logits, out, g.embedding[t])
            outer(d_out, h, g.W2[t])
            row_sums(d_out, g.b2[t])
            affine(w.W2_T, nothing, d_out, d_h)
            relu_backward(d_h, h, d)
            outer(d_h, z, g.W1[t])
            row_sums(d_h, g.b1[t])
            affine(w.W1_T, nothing, d_h, d_z)
            standardise_backward(
                d_z, x_hat, inverse_sigma, w.gain, d_out, g.gain[t], g.shift[t], one, other
            )
            row_sums(d_out, g.start[t])
            mix_backward(d_out, mixed, inverse)
            outer(mixed, n, g_mix)
        if train:
            mixing_backward(g_mix, mix, w.values, g.scores[t], g.values[t])
        t = next_of(counter)


# Without the licence to reorder sums: the order is the point.
@numba.njit(nogil=True, cache=True)
@no_type_check
def add_up(sums, found, gradients, train):
    """Add every piece's sums to `gradients`, piece by piece; returns loss and right answers."""
    total, right, parts = 0.0, 0.0, len(found) // len(gradients.values)
    for t in range(len(found)):
        total += found[t, 0]
        right += found[t, 1]
        if not train:
            continue
        c = t // parts
        gradients.scores[c] += sums.scores[t]
        gradients.values[:] += sums.values[t]
        gradients.start[c] += sums.start[t]
        gradients.embedding[:] += sums.embedding[t]
        gradients.W1[:] += sums.W1[t]
        gradients.b1[:] += sums.b1[t]
        gradients.W2[:] += sums.W2[t]
        gradients.b2[:] += sums.b2[t]
        gradients.gain[:] += sums.gain[t]
        gradients.shift[:] += sums.shift[t]
    return total, right


forget_outdated(__name__, mixing, steps, threads, vectorised)
