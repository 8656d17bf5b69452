"""KL divergence of removing each of the six terms, for every query of a document, in one pass.

Removing a term T from the scores of a query changes its attention from p to q ∝ p·e^{−t}, where
t = T/scale. The divergence needs no second softmax (it is Kamoda et al. 2025, Eq. 18–21, with q
written out):

    KL(p ‖ q) = E_p[t] + log E_p[e^{−t}],

and does not change when a constant is added to t. The kernel uses that twice. It shifts t by its
value t₀ at the key that has the most attention, t' = t − t₀, and computes

    KL = E_p[t'] + log1p(E_p[e^{−t'} − 1]),

in which nothing cancels while p is peaked. Where the result is small all the same, t hardly varies
over the attended keys; then it shifts by the mean instead, u = t − E_p[t], and sums the
non-negative f(u) = e^{−u} − 1 + u, by its series for small u:

    KL = E_p[u] + log1p(E_p[f(u)] − E_p[u]),

whose first term is zero but for rounding, and drops out to second order. So a divergence of 1e-12
nats is as good, relative to the scores it is computed from, as one of 10.

Everything is single precision except the last step of each row; a row and its terms stay in the
first-level cache, and no [query key] matrix of a whole document is ever held. `no_type_check` keeps
the tests' shape checker away from the functions that numba compiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import no_type_check

import numba
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import TERMS, look_up
from lnattn.errors import ShapeError
from lnattn.models.layers import Embeddings

#: Queries whose scores a thread holds at one time: 4 · 64 · n numbers, within its own cache.
_BLOCK = 64

#: Licence to reorder sums and to fuse multiplications; infinities keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "nnan", "arcp"}

_F = np.float32
#: e^x is cut off here, so that a sum over any document stays finite; see `_divergence`.
_LARGEST_EXPONENT = _F(69.0)
_TOO_LARGE = 5e29
#: Below this many nats the shift by the mean is used.
_SMALL_KL = 0.01
_ALL_BUT_SIGN, _LOWEST = np.int32(0x7FFFFFFF), np.int32(-(2**31))
#: Up to here e^{−u} − 1 + u is summed as a series.
_NEAR = _F(0.5)


class SixTermKL:
    """Computes the divergences of documents, one call each, for one model and one scale.

    Made once: each head's query and key weights side by side, the projections of all positions
    (the same in every document up to σ), and the threads, which keep their memory between calls.
    scale: what the scores are divided by before the softmax (default: the model's own). workers:
    threads, one head each at a time (default: torch's number). Weights are taken to single
    precision. Raises `TokenError` for a checkpoint without token embeddings, and `ShapeError` for a
    scale that is not positive or a layer with a local window.
    """

    def __init__(
        self,
        folded: FoldedAttention,
        embeddings: Embeddings,
        scale: float | None = None,
        workers: int | None = None,
    ) -> None:
        if scale is not None and not scale > 0:
            raise ShapeError(f"the softmax's scale must be a positive number, not {scale}.")
        if folded.window is not None:
            raise ShapeError(
                "the six divergences need a layer whose queries see all earlier keys; this one "
                f"sees only the last {folded.window}."
            )
        look_up(embeddings, [0])  # one clear error now for a checkpoint without token embeddings
        self._embeddings = embeddings.to(torch.float32)
        self._heads, self._d_head = folded.n_heads, folded.d_head
        self._eps, self._causal = folded.eps, folded.causal
        shrink = 1.0 / (folded.scale if scale is None else scale)
        # [head d_model 2·d_head]: queries, already divided by the scale, beside keys.
        self._projection = torch.cat([folded.W_Q * shrink, folded.W_K], dim=2).float()
        self._projected_positions = self._embeddings.W_P @ self._projection
        # [d_model head]: what a key asserts alone, whatever the query.
        self._alone = (folded.b_QK.T * shrink).float()
        self._alone_of_positions = self._embeddings.W_P @ self._alone
        self._workers = min(workers or torch.get_num_threads(), self._heads)
        self._pool = ThreadPoolExecutor(self._workers)

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `TERMS`; positions are 0 … n − 1.

        Float32. The first query of a causal model sees one key, so its six numbers are 0. Raises
        `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        with _one_thread_each():
            tokens, positions = look_up(self._embeddings, token_ids)
            n = len(tokens)
            over_sigma = 1 / sigma(tokens + positions, self._eps)[:, None]
            alone = torch.stack([tokens @ self._alone, self._alone_of_positions[:n]])
            by_head = (alone * over_sigma).permute(2, 0, 1).contiguous().numpy()
            # A text repeats its words: each distinct token is projected once.
            ids, inverse = torch.unique(torch.as_tensor(token_ids), return_inverse=True)
            distinct = self._embeddings.W_E[ids]  # type: ignore[index]  # look_up has checked it
            divergence = np.empty((self._heads, len(TERMS), n), dtype=np.float32)

            def one_head(head: int) -> None:
                inputs = torch.empty(n, 2, 2 * self._d_head)
                projected = (distinct @ self._projection[head])[inverse]
                torch.mul(projected, over_sigma, out=inputs[:, 0])
                projected = self._projected_positions[head, :n]
                torch.mul(projected, over_sigma, out=inputs[:, 1])
                self._queries_against_keys(inputs, by_head[head], divergence[head])

            list(self._pool.map(one_head, range(self._heads)))
        return divergence.transpose(1, 0, 2)

    def _queries_against_keys(
        self,
        inputs: Float[Tensor, "n part column"],
        alone: Float[np.ndarray, "part n"],
        divergence: Float[np.ndarray, "term n"],
    ) -> None:
        """Fill the divergences of one head from its projected token parts and position parts."""
        n, width = len(inputs), self._d_head
        # Rows 2 i and 2 i + 1: the token part and the position part of query i.
        queries = inputs[..., :width].flatten(0, 1)
        keys = inputs[..., width:]
        # Reused by every block: fresh memory would be zeroed by the system again and again.
        scratch = torch.empty(2 * 2 * _BLOCK * n)
        for first in range(0, n, _BLOCK):
            last = min(first + _BLOCK, n)
            seen = last if self._causal else n
            query = queries[2 * first : 2 * last]
            scores = scratch[: 2 * len(query) * seen].view(2, len(query), seen)
            for part in range(2):
                torch.mm(query, keys[:seen, part].T, out=scores[part])
            _divergences(scores.numpy(), alone, first, self._causal, divergence)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let torch use one thread while we run the threads ourselves.

    From the first operation on: torch's own threads keep a core busy for a while after each.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@numba.njit(fastmath=_FAST, inline="always")
@no_type_check
def _exp(x):
    """e^x in single precision (relative error about 1e-7), written so that it vectorises.

    x = k·log 2 + r with |r| ≤ (log 2)/2; e^r by a polynomial, 2^k by setting the exponent bits.
    """
    x = min(max(x, _F(-87.0)), _LARGEST_EXPONENT)
    k = np.floor(x * _F(1.4426950408889634) + _F(0.5))
    # log 2 in two parts, the first exact in few bits, so that x − k·log 2 loses nothing.
    r = (x - k * _F(0.693359375)) + k * _F(2.12194440e-4)
    series = _F(1 / 5040)
    series = series * r + _F(1 / 720)
    series = series * r + _F(1 / 120)
    series = series * r + _F(1 / 24)
    series = series * r + _F(1 / 6)
    series = series * r + _F(0.5)
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (series * r * r + r + _F(1.0)) * power


@numba.njit(inline="always")
@no_type_check
def _as_ordered(x):
    """Map a number to an integer of the same order: largest integers are found many at a time.

    (The largest of floats is not, because the compiler minds NaN.) Below zero the bits of a float
    grow with its size, so all but the sign are turned over.
    """
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & _ALL_BUT_SIGN))


@numba.njit(inline="always")
@no_type_check
def _from_ordered(bits):
    """The number that `_as_ordered` maps to these bits."""
    bits = np.int32(bits)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & _ALL_BUT_SIGN)).view(np.float32)


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
@no_type_check
def _divergences(scores, alone, first, causal, out):
    """Fill out[term, i] for each query i = first + r of a block, for one head.

    scores: [part of the key, 2 r + part of the query, key], alone: [part of the key, key], where
    part 0 is the token and 1 the position; all already divided by the softmax's scale.
    """
    keys = scores.shape[2]
    e, p = alone[0], alone[1]
    x = np.empty(keys, np.float32)
    weight = np.empty(keys, np.float32)
    for r in range(scores.shape[1] // 2):
        i = first + r
        seen = i + 1 if causal else keys
        ee, pe = scores[0, 2 * r], scores[0, 2 * r + 1]
        ep, pp = scores[1, 2 * r], scores[1, 2 * r + 1]
        ordered = _LOWEST
        for j in range(seen):
            x[j] = ee[j] + ep[j] + pe[j] + pp[j] + e[j] + p[j]
            ordered = max(ordered, _as_ordered(x[j]))
        highest = _from_ordered(ordered)
        favourite = 0
        while x[favourite] < highest:
            favourite += 1
        total = _F(0.0)
        for j in range(seen):
            x[j] -= highest
            weight[j] = _exp(x[j])
            total += weight[j]
        out[0, i] = _divergence(ee, x, weight, total, seen, favourite)
        out[1, i] = _divergence(ep, x, weight, total, seen, favourite)
        out[2, i] = _divergence(pe, x, weight, total, seen, favourite)
        out[3, i] = _divergence(pp, x, weight, total, seen, favourite)
        out[4, i] = _divergence(e, x, weight, total, seen, favourite)
        out[5, i] = _divergence(p, x, weight, total, seen, favourite)


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
@no_type_check
def _divergence(t, x, weight, total, seen, favourite):
    """KL of removing the term t from one query; p = weight/total = e^x/total, max x = 0."""
    shift = t[favourite]
    first = _F(0.0)  # total · E_p[t']
    lowest = highest = np.int32(0)  # t' is 0 at the favourite key
    for j in range(seen):
        u = t[j] - shift
        first += weight[j] * u
        lowest = min(lowest, _as_ordered(u))
        highest = max(highest, _as_ordered(u))
    mean = np.float64(first) / total
    centre = _F(shift + mean)
    if _from_ordered(highest) - _from_ordered(lowest) < _NEAR:  # no exponential is needed
        return _near(t, weight, total, centre, seen)
    change = _F(0.0)  # total · E_p[e^{−t'} − 1]
    for j in range(seen):
        change += _exp(x[j] - (t[j] - shift)) - weight[j]
    if change > _TOO_LARGE:
        return _large(t, x, first, total, shift, seen)
    divergence = mean + math.log1p(np.float64(change) / total)
    if divergence < _SMALL_KL:
        return _small(t, x, weight, total, centre, seen)
    return divergence


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
@no_type_check
def _large(t, x, first, total, shift, seen):
    """The same when some e^{−t'} is astronomically large: an ordinary log-sum-exp."""
    highest = _F(-3e38)
    for j in range(seen):
        highest = max(highest, x[j] - (t[j] - shift))
    rest = _F(0.0)
    for j in range(seen):
        rest += _exp(x[j] - (t[j] - shift) - highest)
    return np.float64(first) / total + np.float64(highest) + math.log(np.float64(rest) / total)


@numba.njit(fastmath=_FAST, inline="always")
@no_type_check
def _half_square(u):
    """f(u) = e^{−u} − 1 + u for |u| < 1/2 by its series, so that nothing cancels."""
    series = _F(1 / 40320)
    series = series * u - _F(1 / 5040)
    series = series * u + _F(1 / 720)
    series = series * u - _F(1 / 120)
    series = series * u + _F(1 / 24)
    series = series * u - _F(1 / 6)
    series = series * u + _F(0.5)
    return u * u * series


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
@no_type_check
def _near(t, weight, total, centre, seen):
    """The same when t varies by less than 1/2 over the keys: a sum of non-negative f(u)."""
    above = _F(0.0)  # total · E_p[f(u)]
    first = _F(0.0)  # total · E_p[u]; not zero only because `centre` is rounded
    for j in range(seen):
        u = t[j] - centre
        above += weight[j] * _half_square(u)
        first += weight[j] * u
    return _centred(above, first, total)


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
@no_type_check
def _small(t, x, weight, total, centre, seen):
    """The same when the divergence is small although t varies much, at keys of little weight."""
    above = _F(0.0)
    first = _F(0.0)
    for j in range(seen):
        u = t[j] - centre
        near = weight[j] * _half_square(u)
        far = _exp(x[j] - u) - weight[j] + weight[j] * u
        above += near if abs(u) < _NEAR else far
        first += weight[j] * u
    return _centred(above, first, total)


@numba.njit(inline="always")
@no_type_check
def _centred(above, first, total):
    """KL = E_p[u] + log(1 + E_p[f(u)] − E_p[u]), which is never negative but for rounding."""
    mean = np.float64(first) / total
    return max(mean + math.log1p(np.float64(above) / total - mean), 0.0)
