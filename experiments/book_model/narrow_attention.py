"""Causal attention of heads of width 2, compiled, without an array of query times key.

A score takes two multiply-adds, its exponential several times as many, and either is cheaper than
a place in memory. So each query runs along the keys that it sees, forward once, and backward once
more from the logarithm of its sum. The keys of a head at 1,024 tokens fit the smallest cache.

`no_type_check` keeps the tests' shape checker away from functions that numba compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, no_type_check

import numba as nb
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.book_model.narrow_loss import LOG2_E, OPTIONS, SAFE
from experiments.threads import in_parts
from experiments.vectorised import as_ordered, exp2, from_ordered, widest

#: The width of a head that the kernel is written for.
HEAD_WIDTH = 2
#: Keys that are looked at together: whole vectors, and a few at a time. The rest of a row would be
#: done one by one, and take as long as all others.
BLOCK = 64

_F = np.float32


@nb.njit(**OPTIONS)
@no_type_check
def _largest(a, b, k0, k1):
    """The largest a k0[j] + b k1[j]."""
    widest()
    largest = as_ordered(_F(-np.inf))
    for j in range(len(k0)):
        largest = max(largest, as_ordered(a * k0[j] + b * k1[j]))
    return from_ordered(largest)


@nb.njit(**OPTIONS)
@no_type_check
def _forward(q, k, v, out, log_sums):
    """All arrays [head 2 n], q times log₂ e and the scale; log_sums [head n] in powers of 2.

    For each query two loops, since the compiler makes the best of whole vectors: over the blocks
    before its own, and over its own with those after it masked.
    """
    widest()
    for h in range(len(q)):
        k0, k1, v0, v1 = k[h, 0], k[h, 1], v[h, 0], v[h, 1]
        longest = _F(0)
        for i in range(q.shape[2]):
            a, b, before = q[h, 0, i], q[h, 1, i], i // BLOCK * BLOCK
            longest = max(longest, k0[i] * k0[i] + k1[i] * k1[i])
            near = (a * a + b * b) * longest <= SAFE * SAFE
            shift = _F(0) if near else _largest(a, b, k0[: i + 1], k1[: i + 1])
            total = out0 = out1 = _F(0)
            for j in range(before):
                weight = exp2(a * k0[j] + b * k1[j] - shift)
                total += weight
                out0 += weight * v0[j]
                out1 += weight * v1[j]
            own = slice(before, before + BLOCK)
            c0, c1, w0, w1 = k0[own], k1[own], v0[own], v1[own]
            for j in range(BLOCK):
                weight = exp2(a * c0[j] + b * c1[j] - shift) if j <= i - before else _F(0)
                total += weight
                out0 += weight * w0[j]
                out1 += weight * w1[j]
            out[h, 0, i], out[h, 1, i] = out0 / total, out1 / total
            log_sums[h, i] = shift + _F(math.log2(total))


@nb.njit(**OPTIONS)
@no_type_check
def _backward(q, k, v, out, log_sums, u, gq, gk, gv):
    """Gradients from u, that of `out`; those of k and v begin as zeros."""
    widest()
    for h in range(len(q)):
        k0, k1, v0, v1 = k[h, 0], k[h, 1], v[h, 0], v[h, 1]
        gk0, gk1, gv0, gv1 = gk[h, 0], gk[h, 1], gv[h, 0], gv[h, 1]
        for i in range(q.shape[2]):
            a, b, before = q[h, 0, i], q[h, 1, i], i // BLOCK * BLOCK
            u0, u1, log_sum = u[h, 0, i], u[h, 1, i], log_sums[h, i]
            mean = u0 * out[h, 0, i] + u1 * out[h, 1, i]
            ga = gb = _F(0)
            for j in range(before):
                weight = exp2(a * k0[j] + b * k1[j] - log_sum)
                gv0[j] += weight * u0
                gv1[j] += weight * u1
                score = weight * (u0 * v0[j] + u1 * v1[j] - mean)
                ga += score * k0[j]
                gb += score * k1[j]
                gk0[j] += score * a
                gk1[j] += score * b
            own = slice(before, before + BLOCK)
            c0, c1, w0, w1 = k0[own], k1[own], v0[own], v1[own]
            gc0, gc1, gw0, gw1 = gk0[own], gk1[own], gv0[own], gv1[own]
            for j in range(BLOCK):
                weight = exp2(a * c0[j] + b * c1[j] - log_sum) if j <= i - before else _F(0)
                gw0[j] += weight * u0
                gw1[j] += weight * u1
                score = weight * (u0 * w0[j] + u1 * w1[j] - mean)
                ga += score * c0[j]
                gb += score * c1[j]
                gc0[j] += score * a
                gc1[j] += score * b
            gq[h, 0, i], gq[h, 1, i] = ga, gb


def _by_heads(kernel: Callable[..., None], *tensors: Tensor) -> None:
    arrays = [x.numpy() for x in tensors]
    in_parts(lambda _, heads: kernel(*(x[heads] for x in arrays)), len(arrays[0]))


class _NarrowAttention(torch.autograd.Function):
    """Inputs and output [head 2 n]; q times log₂ e and the scale."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, log_sums = torch.empty_like(q), torch.empty(len(q), q.shape[-1])
        _by_heads(_forward, q, k, v, out, log_sums)
        ctx.save_for_backward(q, k, v, out, log_sums)
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        saved = (*ctx.saved_tensors, upstream.contiguous())
        gq, gk, gv = (torch.zeros_like(saved[0]) for _ in range(3))
        _by_heads(_backward, *saved, gq, gk, gv)
        return gq / float(LOG2_E), gk / float(LOG2_E), gv


@torch.compiler.disable
def narrow_attention(
    query: Float[Tensor, "batch head token 2"],
    key: Float[Tensor, "batch head token 2"],
    value: Float[Tensor, "batch head token 2"],
    scale: float,
) -> Float[Tensor, "batch token head 2"]:
    """Causal attention softmax(scale q·k) v, in float32 on the CPU, in the layout of its heads."""
    n, scaled = query.shape[2], query * (scale * float(LOG2_E))
    # Up to whole blocks, by tokens that come last: none that was there sees them.
    rows = (
        torch.nn.functional.pad(x.transpose(2, 3).flatten(0, 1), (0, -n % BLOCK)).contiguous()
        for x in (scaled, key, value)
    )
    out = _NarrowAttention.apply(*rows)[..., :n]
    return out.unflatten(0, query.shape[:2]).permute(0, 3, 1, 2)
