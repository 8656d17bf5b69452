"""The kernel under `six_term_kl`: divergences of removing each term, row by row, compiled.

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

Everything is single precision except the last step of each row. `no_type_check` keeps the tests'
shape checker away from the functions that numba compiles.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numba
import numpy as np

from lnattn.numerics import vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.vectorised import FAST, as_ordered, exp2, from_ordered, on_cache_lines, widest

_F = np.float32
_TOO_LARGE = 5e29
#: `exp2` of so many times x is e^x; the limit, e^69, is too large in the sense above.
_LOG2_E, _LIMIT = _F(1.4426950408889634), _F(99.5)
#: Below this many nats the shift by the mean is used.
_SMALL_KL = 0.01
_LOWEST, _LARGEST = np.int32(-(2**31)), np.int32(2**31 - 1)
#: Up to here e^{−u} − 1 + u is summed as a series; and the bits of this number.
_NEAR, _NEAR_BITS = _F(0.5), np.int32(0x3F000000)
#: All bits of a float but its sign: the size of a number, and of one in view.
_SIZE = np.int32(0x7FFFFFFF)
#: The logarithm of the weight of a key that the query does not see.
_OUT_OF_VIEW = _F(-1e30)
#: Rows are read to a multiple of this, since what is left over is read one by one.
_STEP = 64


@numba.njit(nogil=True, cache=True, fastmath=FAST)
@no_type_check
def divergences(scores, alone, first, causal, out):
    """Fill out[term, i] for each query i = first + r of a block, for one head.

    Of a query, p = weight/total = 2^x/total, where the largest x is 0; t, t' and u are the above.

    scores: [part of the key, 2 r + part of the query, key], alone: [part of the key, key], where
    part 0 is the token and 1 the position; all finite and already divided by the softmax's scale.
    """
    widest()
    keys = scores.shape[2]
    e, p = alone[0], alone[1]
    room = on_cache_lines(2, keys + -keys % 16, scores)
    x, weight = room[0], room[1]
    # Keys beyond the query's view are read with the others and count for nothing.
    view = np.zeros(keys, np.int32)
    view[: first if causal else keys] = _SIZE
    for r in range(scores.shape[1] // 2):
        i = first + r
        seen = i + 1 if causal else keys
        view[seen - 1] = _SIZE
        read = min(seen + -seen % _STEP, keys)
        ee, pe = scores[0, 2 * r], scores[0, 2 * r + 1]
        ep, pp = scores[1, 2 * r], scores[1, 2 * r + 1]
        ordered = _LOWEST
        for j in range(read):
            score = ee[j] + ep[j] + pe[j] + pp[j] + e[j] + p[j]
            x[j] = score if view[j] != 0 else _OUT_OF_VIEW
            ordered = max(ordered, as_ordered(x[j]))
        highest = from_ordered(ordered)
        favourite = _LARGEST
        total = _F(0.0)
        for j in range(read):
            favourite = min(favourite, np.int32(j) if x[j] >= highest else _LARGEST)
            x[j] = (x[j] - highest) * _LOG2_E
            weight[j] = exp2(x[j])
            total += weight[j]
        # Written out here: a call for each term would take a quarter of the time of a short row.
        for term in range(6):
            t = scores[term & 1, 2 * r + (term >> 1)] if term < 4 else alone[term - 4]
            shift = t[favourite]
            mass = _F(0.0)  # total · E_p[t']
            farthest = np.int32(0)  # the bits of the largest |t'|, which are in the order of sizes
            for j in range(read):
                u = np.float32(t[j] - shift)
                mass += weight[j] * u
                farthest = max(farthest, np.int32(u.view(np.int32) & view[j]))
            mean = np.float64(mass) / total
            centre = _F(shift + mean)
            if farthest < _NEAR_BITS:  # no exponential is needed
                out[term, i] = _near(t, weight, total, centre, seen)
                continue
            change = _F(0.0)  # total · E_p[e^{−t'} − 1]
            for j in range(read):
                change += exp2(min(x[j] - (t[j] - shift) * _LOG2_E, _LIMIT)) - weight[j]
            if change > _TOO_LARGE:
                out[term, i] = _large(t, x, mean, total, shift, seen)
                continue
            divergence = mean + math.log1p(np.float64(change) / total)
            if divergence < _SMALL_KL:
                divergence = _small(t, x, weight, total, centre, seen)
            out[term, i] = divergence


@numba.njit(nogil=True, cache=True, fastmath=FAST)
@no_type_check
def _large(t, x, mean, total, shift, seen):
    """The same when some e^{−t'} is astronomically large: an ordinary log-sum-exp, to base 2."""
    highest = _F(-3e38)
    for j in range(seen):
        highest = max(highest, x[j] - (t[j] - shift) * _LOG2_E)
    rest = _F(0.0)
    for j in range(seen):
        rest += exp2(x[j] - (t[j] - shift) * _LOG2_E - highest)
    log_rest = np.float64(highest) / np.float64(_LOG2_E) + math.log(np.float64(rest) / total)
    return mean + log_rest


@numba.njit(fastmath=FAST, inline="always")
@no_type_check
def _half_square(u):
    """f(u) = e^{−u} − 1 + u for |u| < 1 by its series, so that nothing cancels."""
    series = _F(1 / 3628800)
    series = series * u - _F(1 / 362880)
    series = series * u + _F(1 / 40320)
    series = series * u - _F(1 / 5040)
    series = series * u + _F(1 / 720)
    series = series * u - _F(1 / 120)
    series = series * u + _F(1 / 24)
    series = series * u - _F(1 / 6)
    series = series * u + _F(0.5)
    return u * u * series


@numba.njit(nogil=True, cache=True, fastmath=FAST)
@no_type_check
def _near(t, weight, total, centre, seen):
    """The same when all t are within 1/2 of the favourite's: a sum of non-negative f(u).

    No t is then more than 1 away from their mean, which lies among them.
    """
    widest()
    above = _F(0.0)  # total · E_p[f(u)]
    first = _F(0.0)  # total · E_p[u]; not zero only because `centre` is rounded
    for j in range(seen):
        u = t[j] - centre
        above += weight[j] * _half_square(u)
        first += weight[j] * u
    return _centred(above, first, total)


@numba.njit(nogil=True, cache=True, fastmath=FAST)
@no_type_check
def _small(t, x, weight, total, centre, seen):
    """The same when the divergence is small although t varies much, at keys of little weight."""
    widest()
    above = _F(0.0)
    first = _F(0.0)
    for j in range(seen):
        u = t[j] - centre
        near = weight[j] * _half_square(u)
        far = exp2(x[j] - u * _LOG2_E) - weight[j] + weight[j] * u
        above += near if abs(u) < _NEAR else far
        first += weight[j] * u
    return _centred(above, first, total)


@numba.njit(inline="always")
@no_type_check
def _centred(above, first, total):
    """KL = E_p[u] + log(1 + E_p[f(u)] − E_p[u]), which is never negative but for rounding."""
    mean = np.float64(first) / total
    return max(mean + math.log1p(np.float64(above) / total - mean), 0.0)


forget_outdated(__name__, vectorised)
