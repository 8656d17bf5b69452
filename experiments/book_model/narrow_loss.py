"""Next-token loss of a model of width 8 and its gradients, compiled: its `chunked_loss`.

At width 8 a logit costs 8 multiply-adds, and reading it from memory more than making it. So a few
rows of exponentials at a time stay in the cache: a first pass makes logits, exponentials, their sum
and the gradient of x, tile by tile of the vocabulary; a second the gradient of W_E. Each logit
takes one exponential. Every thread has a gradient of W_E of its own.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

import math
from typing import Any, no_type_check

import numba as nb
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.threads import in_parts, part_count
from experiments.vectorised import (
    FAST,
    as_ordered,
    exp2,
    from_ordered,
    on_cache_lines,
    widest,
)

#: The width that the kernel is written for.
WIDTH = 8
#: Exponents of 2 that are summed without subtracting the largest: `exp2` does not cut them off, and
#: thousands of such powers, times weights, stay within single precision, which ends at 2^±126.
SAFE = np.float32(60.0)
#: log₂ e: the logits are made in units of log 2, so that their exponentials are powers of 2.
LOG2_E = np.float32(1.4426950408889634)

#: Rows whose exponentials are kept, written out in `_add_outer`; columns of W_Eᵀ kept meanwhile.
_ROWS, _TILE = 4, 1024
#: How both kernels are compiled.
OPTIONS = {"cache": True, "nogil": True, "fastmath": FAST, "error_model": "numpy"}
_F = np.float32


@nb.njit(**OPTIONS)
@no_type_check
def _largest(x, W):
    """The largest x·W[:, v] over the whole vocabulary."""
    widest()
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    w0, w1, w2, w3, w4, w5, w6, w7 = W[0], W[1], W[2], W[3], W[4], W[5], W[6], W[7]
    largest = as_ordered(_F(-np.inf))
    for v in range(W.shape[1]):
        score = x0 * w0[v] + x1 * w1[v] + x2 * w2[v] + x3 * w3[v]
        score += x4 * w4[v] + x5 * w5[v] + x6 * w6[v] + x7 * w7[v]
        largest = max(largest, as_ordered(score))
    return from_ordered(largest)


@nb.njit(**OPTIONS)
@no_type_check
def _rows(x, W, norm, targets, losses, x_grad, W_grad):
    """Losses and gradients of rows; x times log₂ e, W [8 V]; W_grad is added to."""
    widest()
    n, V = len(x), W.shape[1]
    e, scaled = on_cache_lines(_ROWS, V, x), np.zeros((WIDTH, _ROWS), _F)
    shifts, sums, grads = np.zeros(_ROWS, _F), np.zeros(_ROWS, _F), np.zeros((_ROWS, WIDTH), _F)
    for first in range(0, n, _ROWS):
        rows = min(_ROWS, n - first)
        for r in range(rows):
            square = _F(0)
            for k in range(WIDTH):
                square += x[first + r, k] ** 2
                grads[r, k] = _F(0)
            near = math.sqrt(square) * norm <= SAFE
            shifts[r], sums[r] = _F(0) if near else _largest(x[first + r], W), _F(0)
        for start in range(0, V, _TILE):
            tile = slice(start, min(V, start + _TILE))
            w0, w1, w2, w3 = W[0, tile], W[1, tile], W[2, tile], W[3, tile]
            w4, w5, w6, w7 = W[4, tile], W[5, tile], W[6, tile], W[7, tile]
            for r in range(rows):
                y, powers, shift, g = x[first + r], e[r, tile], shifts[r], grads[r]
                x0, x1, x2, x3, x4, x5, x6, x7 = y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]
                g0 = g1 = g2 = g3 = g4 = g5 = g6 = g7 = total = _F(0)
                for v in range(len(w0)):
                    score = x0 * w0[v] + x1 * w1[v] + x2 * w2[v] + x3 * w3[v]
                    score += x4 * w4[v] + x5 * w5[v] + x6 * w6[v] + x7 * w7[v]
                    power = exp2(score - shift)
                    powers[v] = power
                    total += power
                    g0 += power * w0[v]
                    g1 += power * w1[v]
                    g2 += power * w2[v]
                    g3 += power * w3[v]
                    g4 += power * w4[v]
                    g5 += power * w5[v]
                    g6 += power * w6[v]
                    g7 += power * w7[v]
                g[0], g[1], g[2], g[3] = g[0] + g0, g[1] + g1, g[2] + g2, g[3] + g3
                g[4], g[5], g[6], g[7] = g[4] + g4, g[5] + g5, g[6] + g6, g[7] + g7
                sums[r] += total
        for r in range(rows):
            i, score, share = first + r, _F(0), _F(1) / sums[r]
            for k in range(WIDTH):
                natural, w = x[i, k] / LOG2_E, W[k, targets[i]]
                score += x[i, k] * w
                scaled[k, r] = natural * share
                x_grad[i, k] = grads[r, k] * share - w
                W_grad[k, targets[i]] -= natural
            losses[i] = math.log(sums[r]) + (shifts[r] - score) / LOG2_E
        scaled[:, rows:] = _F(0)  # in the last block: what others left in e counts nothing
        for start in range(0, V, _TILE):
            tile = slice(start, min(V, start + _TILE))
            e0, e1, e2, e3 = e[0, tile], e[1, tile], e[2, tile], e[3, tile]
            for k in range(0, WIDTH, 2):
                a, b = W_grad[k, tile], W_grad[k + 1, tile]
                a0, a1, a2, a3 = scaled[k, 0], scaled[k, 1], scaled[k, 2], scaled[k, 3]
                m = k + 1
                b0, b1, b2, b3 = scaled[m, 0], scaled[m, 1], scaled[m, 2], scaled[m, 3]
                for v in range(len(e0)):
                    a[v] += a0 * e0[v] + a1 * e1[v] + a2 * e2[v] + a3 * e3[v]
                    b[v] += b0 * e0[v] + b1 * e1[v] + b2 * e2[v] + b3 * e3[v]


class _NarrowLoss(torch.autograd.Function):
    """Mean of the losses, with both gradients made on the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W_E: Tensor, targets: Tensor) -> Tensor:
        n = len(x)
        W, norm = W_E.T.contiguous(), float(W_E.norm(dim=1).max())
        losses, x_grad = x.new_empty(n), torch.empty_like(x)
        W_grads = x.new_zeros(part_count(n), *W.shape)
        scaled, columns, *of_rows = (
            t.numpy() for t in (x * float(LOG2_E), W, targets, losses, x_grad)
        )

        def rows(part: int, one: slice) -> None:
            ours = (a[one] for a in of_rows)
            _rows(scaled[one], columns, _F(norm), *ours, W_grads[part].numpy())

        in_parts(rows, n)
        ctx.save_for_backward(x_grad, W_grads.sum(0).T)
        loss = losses.mean(dtype=torch.float64).float()
        # The kernel knows no NaN, and what a training that has run away gives must stay one.
        return loss if math.isfinite(norm) and x.isfinite().all() else loss * math.nan

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        x_grad, W_grad = ctx.saved_tensors
        scale = upstream / len(x_grad)
        return x_grad * scale, W_grad * scale, None


def narrow_loss(
    x: Float[Tensor, "rows 8"], W_E: Float[Tensor, "vocab 8"], targets: Int[Tensor, "rows"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats of logits x W_Eᵀ, in float32 on the CPU."""
    return _NarrowLoss.apply(x, W_E, targets)
