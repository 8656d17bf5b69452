"""Loss and gradients of the majority model over a batch of count vectors, in one pass.

A position's output depends on its class c and on the sequence's counts n alone, so a sequence has
as many different positions as it has classes, and the one of class c counts n_c times. With the
scores S and the values v of the classes, attention's output for a query of class c is

    o_c = Σ_k n_k e^{S_ck} v_k / Σ_k n_k e^{S_ck},

numerator and denominator being one small matrix M_c (rows: the d coordinates of e^{S_ck} v_k, and
e^{S_ck} itself) times n. A piece is one class and a part of the batch. `work_on` lists the
sequences of that part that have the class, and takes them, `LANES` at a time, through the rest of
the layer and back (`steps`); `totals` adds up the gradients with respect to scores, values and all
later weights. What lies before, the scores of a few classes, is shared by the whole batch (`head`).

Threads take the next piece from a common counter. Every piece leaves its own sums, and they are
added in the order of the pieces: who worked on which changes no bit. The arrays' dtype, float32 or
float64, is that of the arithmetic; the loss is summed over pieces in float64.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np

from experiments.majority.mixing import (
    divide_and_add,
    gather,
    mix_backward,
    mixing_backward,
    mixing_matrix,
)
from experiments.majority.steps import (
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
from experiments.threads import next_of
from experiments.vectorised import on_cache_lines, widest

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


#: Of these a piece has the part of its class only.
_BY_CLASS = ("scores", "start")


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
    """Room for the gradients of so many pieces of every run, not yet filled: [run, piece, …].

    A piece belongs to one class, so it has one row of scores and one start.
    """
    found = []
    for name in Gradients._fields:
        runs, *shape = getattr(weights, name).shape
        own = shape[1:] if name in _BY_CLASS else shape
        found.append(np.empty((runs, pieces, *own), weights.scores.dtype))
    return Gradients(*found)


def totals(sums: Gradients, classes: int) -> Gradients:
    """The gradients of every run [run, …]: what its pieces left, in their order."""
    found = []
    for name, array in zip(Gradients._fields, sums, strict=True):
        if name in _BY_CLASS:
            runs, pieces, own = array.shape
            array = array.reshape(runs, classes, pieces // classes, own).swapaxes(1, 2)
        found.append(array.sum(axis=1))
    return Gradients(*found)


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
def _of_run(w, run):
    """One run's weights."""
    head = w.scores[run], w.values[run], w.start[run], w.embedding[run], w.embedding_T[run]
    first, second = (w.W1[run], w.b1[run], w.W1_T[run]), (w.W2[run], w.b2[run], w.W2_T[run])
    return Weights(*head, *first, *second, w.gain[run], w.shift[run])


@numba.njit(**OPTIONS)
@no_type_check
def _of_piece(s, run, t):
    """One piece's sums."""
    head = s.scores[run, t], s.values[run, t], s.start[run, t], s.embedding[run, t]
    layers = s.W1[run, t], s.b1[run, t], s.W2[run, t], s.b2[run, t]
    return Gradients(*head, *layers, s.gain[run, t], s.shift[run, t])


@numba.njit(**OPTIONS)
@no_type_check
def work_on(words, sizes, weights, sums, found, scales, train, counter):
    """Take pieces from `counter` until there are none, and fill their rows of `found` and `sums`.

    words: [run, word, batch] as from `columns_of`; sizes: how many columns a run has; weights: with
    a run axis. found: [run, piece, 2], the sum of losses in nats and of right answers, both over
    positions; sums: as from `sums_of`, where `train` is true, the run's scale · ∂loss/∂·. An answer
    is right where no logit exceeds the label's.
    """
    widest()
    like, (_, classes, d), wide = weights.values, weights.values.shape, weights.W1.shape[2]
    runs, pieces, _ = found.shape
    rows = 4 * (words.shape[1] - 1)
    mix, g_mix = np.zeros((d + 1, rows), like.dtype), np.zeros((d + 1, rows), like.dtype)
    n, logits = on_cache_lines(rows, SPAN, like), on_cache_lines(rows, SPAN, like)
    mixed = on_cache_lines(d + 1, SPAN, like)  # numerators, then the denominator
    x, d_out = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    x_hat, z = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    h, d_h = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    out, d_z = on_cache_lines(wide, SPAN, like), on_cache_lines(wide, SPAN, like)
    single = on_cache_lines(5, SPAN, like)
    weight, inverse, inverse_sigma = single[0], single[1], single[2]
    one, other = single[3], single[4]  # scratch
    label, word = np.zeros(LANES, np.int64), on_cache_lines(1, SPAN, words)[0]
    members, parts = np.empty(PIECE + LANES, np.uint32), pieces // classes
    nothing = np.zeros(max(classes, d + 1), like.dtype)
    item = next_of(counter)
    while item < runs * pieces:
        run, t = item // pieces, item % pieces
        c, part, size = t // parts, t % parts, sizes[run]
        w, columns = _of_run(weights, run), words[run]
        number = having(c, columns, size * part // parts, size * (part + 1) // parts, members)
        found[run, t] = 0
        mixing_matrix(w.scores[c], w.values, mix)
        if train:
            g = _of_piece(sums, run, t)
            for g_t in (g_mix, g.embedding, g.W1, g.W2):
                g_t[:] = 0
            for g_t in (g.start, g.b1, g.b2, g.gain, g.shift):
                g_t[:] = 0
        for first in range(0, number, LANES):
            gather(columns, members, first, c, number - first, n, label, weight, word)
            affine(mix, nothing, n, mixed)
            divide_and_add(mixed, w.start[c], inverse, x)
            standardise(x, w.gain, w.shift, x_hat, inverse_sigma, z, one)
            affine(w.W1, w.b1, z, h)
            relu(h, d)
            affine(w.W2, w.b2, h, out)
            add(out, x, d)
            affine(w.embedding, nothing, out, logits)
            loss, right = softmax(logits, classes, label, weight, scales[run], one, other)
            found[run, t, 0] += loss
            found[run, t, 1] += right
            if not train:
                continue
            affine(w.embedding_T, nothing, logits, d_out)
            outer(logits, out, g.embedding)
            outer(d_out, h, g.W2)
            row_sums(d_out, g.b2)
            affine(w.W2_T, nothing, d_out, d_h)
            relu_backward(d_h, h, d)
            outer(d_h, z, g.W1)
            row_sums(d_h, g.b1)
            affine(w.W1_T, nothing, d_h, d_z)
            standardise_backward(
                d_z, x_hat, inverse_sigma, w.gain, d_out, g.gain, g.shift, one, other
            )
            row_sums(d_out, g.start)
            mix_backward(d_out, mixed, inverse)
            outer(mixed, n, g_mix)
        if train:
            mixing_backward(g_mix, mix, w.values, g.scores, g.values)
        item = next_of(counter)
