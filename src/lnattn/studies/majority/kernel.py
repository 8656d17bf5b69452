"""Loss and gradients of the majority model over a batch of count vectors, in one pass.

A position's output depends on its class c and on the sequence's counts n alone, so a sequence has
as many different positions as it has classes, and the one of class c counts n_c times. With the
scores S and the values v of the classes, attention's output for a query of class c is

    o_c = Σ_k n_k e^{S_ck} v_k / Σ_k n_k e^{S_ck},

numerator and denominator being one small matrix M_c (rows: the d coordinates of e^{S_ck} v_k, and
e^{S_ck} itself) times n. `tiles_of` gathers the pairs (sequence, class) class by class and cuts
them into tiles of `LANES`; `work_on` takes tiles through the rest of the layer and back
(`steps`); `add_up` sums the gradients with respect to M_c and all
later weights. What lies before M_c, the scores of a few classes, is shared by the whole batch and
left to autograd (`majority_head`).

Every tile leaves its own sums, and they are added in the order of the tiles: how many threads
worked on them changes no bit. The arrays' dtype, float32 or float64, is that of the arithmetic;
the loss is summed over tiles in float64.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np

from lnattn.numerics import vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.studies.majority import steps
from lnattn.studies.majority.steps import (
    LANES,
    OPTIONS,
    SPAN,
    add,
    affine,
    divide_and_add,
    gather,
    gather_labels,
    mix_backward,
    outer,
    relu,
    relu_backward,
    row_sums,
    softmax,
    standardise,
    standardise_backward,
)


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
    """Shapes as in `Weights`, or one such array a tile. embedding: only through the logits."""

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


class Tiles(NamedTuple):
    """A batch, cut up. vectors: its counts in the weights' dtype, [batch, C]; members: for every
    class the rows of those that have it, [C, batch], and sizes: how many, [C]; owner and first: a
    tile's class, and where among the members it begins, [tile].
    """

    vectors: np.ndarray
    members: np.ndarray
    sizes: np.ndarray
    owner: np.ndarray
    first: np.ndarray


def sums_of(weights: Weights, tiles: int) -> Gradients:
    """Room for the gradients of so many tiles, not yet filled."""
    return Gradients(
        *(
            np.empty((tiles, *_per_tile(name, getattr(weights, name))), weights.mix.dtype)
            for name in Gradients._fields
        )
    )


def _per_tile(name: str, weight: np.ndarray) -> tuple[int, ...]:
    """A tile belongs to one class, so it has one M_c and one start."""
    return weight.shape[1:] if name in ("mix", "start") else weight.shape


@numba.njit(**OPTIONS)
@no_type_check
def tiles_of(counts, batch, like):
    """The tiles of a batch: counts [example, C] uint8, batch the examples' row numbers."""
    vectors, members, sizes = _by_class(counts, batch, like)
    number = 0
    for size in sizes:
        number += -(-size // LANES)
    owner, first = np.empty(number, np.int64), np.empty(number, np.int64)
    tile = 0
    for c in range(len(sizes)):
        for start in range(0, sizes[c], LANES):
            owner[tile], first[tile] = c, start
            tile += 1
    return Tiles(vectors, members, sizes, owner, first)


@numba.njit(**OPTIONS)
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


@numba.njit(**OPTIONS)
@no_type_check
def work_on(tiles, start, stop, batch, labels, weights, sums, found, scale, train):
    """Fill the rows start … stop of found [tile, 2]: sum of losses in nats, and of right answers.

    Both are sums over positions. labels: [example]. Where `train` is true, fills the same rows of
    `sums` with scale · ∂loss/∂·. An answer is right where no logit exceeds the label's.
    """
    w, g = weights, sums
    classes, wide, d = len(tiles.sizes), w.embedding.shape[1], w.start.shape[1]
    n = np.zeros((w.mix.shape[2], SPAN), w.mix.dtype)
    mixed = np.zeros((d + 1, SPAN), w.mix.dtype)  # numerators, then the denominator
    x = np.zeros((wide, SPAN), w.mix.dtype)
    x_hat, z, h, out = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    d_out, d_h, d_z = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    logits = np.zeros_like(n)
    weight = np.zeros(LANES, w.mix.dtype)
    inverse = np.zeros(LANES, w.mix.dtype)
    inverse_sigma = np.zeros(LANES, w.mix.dtype)
    one, other = np.zeros(LANES, w.mix.dtype), np.zeros(LANES, w.mix.dtype)  # scratch
    label = np.zeros(LANES, np.int64)
    nothing = np.zeros(max(classes, d + 1), w.mix.dtype)
    for t in range(start, stop):
        c, first = tiles.owner[t], tiles.first[t]
        members, size = tiles.members[c], tiles.sizes[c]
        gather(tiles.vectors, members, first, size, n)
        gather_labels(batch, labels, members, first, size, n[c], label, weight)
        affine(w.mix[c], nothing, n, mixed)
        divide_and_add(mixed, w.start[c], inverse, x)
        standardise(x, w.gain, w.shift, x_hat, inverse_sigma, z, one)
        affine(w.W1, w.b1, z, h)
        relu(h, d)
        affine(w.W2, w.b2, h, out)
        add(out, x, d)
        affine(w.embedding, nothing, out, logits)
        found[t] = softmax(logits, classes, label, weight, scale, one, other)
        if not train:
            continue
        for g_t in (g.mix[t], g.embedding[t], g.W1[t], g.W2[t]):
            g_t[:] = 0
        for g_t in (g.start[t], g.b1[t], g.b2[t], g.gain[t], g.shift[t]):
            g_t[:] = 0
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
        outer(mixed, n, g.mix[t])


# Without the licence to reorder sums: the order is the point.
@numba.njit(nogil=True, cache=True)
@no_type_check
def add_up(owner, sums, found, gradients, train):
    """Add every tile's sums to `gradients`, tile by tile; returns loss and right answers."""
    total, right = 0.0, 0.0
    for t in range(len(owner)):
        total += found[t, 0]
        right += found[t, 1]
        if not train:
            continue
        c = owner[t]
        gradients.mix[c] += sums.mix[t]
        gradients.start[c] += sums.start[t]
        gradients.embedding[:] += sums.embedding[t]
        gradients.W1[:] += sums.W1[t]
        gradients.b1[:] += sums.b1[t]
        gradients.W2[:] += sums.W2[t]
        gradients.b2[:] += sums.b2[t]
        gradients.gain[:] += sums.gain[t]
        gradients.shift[:] += sums.shift[t]
    return total, right


forget_outdated(__name__, steps, vectorised)
