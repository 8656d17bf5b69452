"""How much each term adds to the divergence of attention from even attention: shares that add up.

Leaving a term out moves attention by some nats, but the nats of all terms have no sum. Along the
path from even attention to the head's own, p(t) = softmax(t z) for t from 0 to 1, the divergence
KL(p(t) ‖ p(0)) grows by t Cov_t(z, z) dt. The scores z are a sum of terms z⁽ᵏ⁾, and a covariance is
a sum over them, so each term has its share (integrated gradients, Sundararajan et al. 2017, by
component of the scores; Kamoda, note of July 2026)::

    KL(p(1) ‖ p(0)) = Σ_k I_k,
    I_k = ∫₀¹ t Cov_t(z⁽ᵏ⁾, z) dt = Σ_j z⁽ᵏ⁾_j (p_j(1) − ∫₀¹ p_j(t) dt).

One mean attention along the path, ∫ p(t) dt, serves all terms. A share is negative where a term
pulls attention back to even. With a soft cap c, z in the softmax is c·tanh(z/c), and the gradient
of the divergence is integrated instead; the shares add up as well.

The integral is a sum over 16 points t in each of few panels, which double in length and begin with
one so short that no score in it differs by more than 8 nats. At every point it takes the sum
Z(t) = Σ_j e^{t z_j} over all keys, and no exponential for it: with the scores z = a (x − 1) below
their largest one, −1 ≤ x ≤ 1, and Chebyshev's polynomials T_m::

    e^{t a (x − 1)} = Σ_m c_m(t) T_m(x),        c_m(t) = (2 − [m = 0]) e^{−t a} I_m(t a),
    Z(t) = Σ_m c_m(t) μ_m,                      μ_m = Σ_j T_m(x_j),
    p_j(1) − ∫₀¹ p_j(t) dt = Σ_m g_m T_m(x_j),  g_m = c_m(1)/Z(1) − ∫₀¹ c_m(t)/Z(t) dt.

I_m is the modified Bessel function (DLMF 10.35.2). A query's scores are passed over twice, for μ
and for the difference, with two products and sums a polynomial; c_m is tabulated for a = 4, 4√2,
8 … nats, whose series end with m = 24, 28, 28 …. Scores that differ by more than the widest table
holds, or are capped, take an exponential a point.

The error in the sum of the shares is known for every query, as the divergence itself is
(`AdditiveKL.error`); for scores that differ by 1,000 nats at most it stays below 1e-10.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ive
from torch import Tensor

from lnattn.attention.terms import PairTerms
from lnattn.compiled import compiled
from lnattn.contribution.kl import SixTermBlocks
from lnattn.exponential import exponential_double
from lnattn.inputs import require

_LEGENDRE = np.polynomial.legendre.leggauss(16)
#: Points and weights of Gauss and Legendre on 0 … 1.
_POINTS = (_LEGENDRE[0] + 1) / 2
_WEIGHTS = _LEGENDRE[1] / 2
#: By how much two scores may differ in the first panel, in nats: the narrowest table.
_FIRST_PANEL = 8.0
#: By how much a table is wider than the one before, and how many there are: up to 1,024 nats.
_WIDER = 2**0.5
_TABLES = 15
#: Coefficients below this are left out.
_NEGLIGIBLE = 1e-16


class _Series(NamedTuple):
    """Tables of c_m(t), by a, and with which weight c_m(t)/Z(t) is in g_m; the last t is 1.

    a: half of what scores may differ by, in nats; degree, points: how far a table goes; a degree is
    a multiple of 4.
    """

    a: Float[np.ndarray, "table"]
    coefficients: Float[np.ndarray, "table point m"]
    weights: Float[np.ndarray, "table point"]
    degree: Int[np.ndarray, "table"]
    points: Int[np.ndarray, "table"]


@cache
def _series() -> _Series:
    a = _FIRST_PANEL / 2 * _WIDER ** np.arange(_TABLES)
    tables, weights = zip(*map(_table, a), strict=True)
    shapes = np.array([table.shape for table in tables])
    coefficients = np.zeros((_TABLES, *shapes.max(axis=0)))
    weights_of_all = np.zeros(coefficients.shape[:2])
    for row, (points, orders) in enumerate(shapes):
        coefficients[row, :points, :orders] = tables[row]
        weights_of_all[row, :points] = weights[row]
    return _Series(a, coefficients, weights_of_all, degree=shapes[:, 1] - 1, points=shapes[:, 0])


def _table(a: float) -> tuple[Float[np.ndarray, "point m"], Float[np.ndarray, "point"]]:
    """c_m(t) for scores within 2a nats, and the weights."""
    first = _FIRST_PANEL / 2 / a
    doubled = first * 2.0 ** np.arange(np.log2(1 / first) - 1e-9)
    ends = np.array([0, *doubled, 1])
    lengths = np.diff(ends)[:, None]
    t = np.append(ends[:-1, None] + lengths * _POINTS, 1)
    orders = np.arange(1000)
    needed = np.flatnonzero(2 * ive(orders, a) > _NEGLIGIBLE)[-1]
    m = orders[: 4 * -(-needed // 4) + 1]
    return np.where(m, 2, 1) * ive(m, t[:, None] * a), np.append(-lengths * _WEIGHTS, 1)


class AdditiveKL(NamedTuple):
    """Shares of the terms in KL(attention ‖ even attention over the keys seen), in nats, float64.

    shares: [term head query], in the order of `terms.names`; divergence: [head query], what they
    add up to.
    """

    shares: Float[Tensor, "term head query"]
    divergence: Float[Tensor, "head query"]

    @property
    def error(self) -> Float[Tensor, "head query"]:
        """What the quadrature leaves of the sum: `|Σ shares − divergence|`."""
        return (self.shares.sum(0) - self.divergence).abs()


def additive_kl(terms: PairTerms) -> AdditiveKL:
    """The share of every term in the divergence of attention from even attention.

    terms: of one sequence, from `six_terms` or `distance_terms`. Computed in float64 from scores in
    the terms' own dtype; time is some 100 products a score, memory one head's terms for each
    thread. Raises `ShapeError` for anything else than terms.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> terms = lnattn.six_terms(lnattn.fold(model.attention), model.embeddings, [464, 3290, 318])
    >>> added = additive_kl(terms)
    >>> tuple(added.shares.shape), bool(added.error.max() < 1e-10)  # term, head, query
    ((6, 8, 3), True)
    """
    require(terms, PairTerms, "terms")
    heads, n, _ = terms[terms.names[0]].shape
    first, last = visible_keys(n, terms.folded.causal, terms.folded.window)
    cap = getattr(terms.folded, "soft_cap", None) or 0.0
    shares = np.empty((len(terms.names), heads, n))
    divergence = np.empty((heads, n))

    def one_head(head: int) -> None:
        parts = np.stack([terms[name][head].numpy() for name in terms.names])
        by_scale = 1 / terms.folded.scale
        shares[:, head] = _shares(parts, by_scale, first, last, cap, _series())
        divergence[head] = _divergence(parts, by_scale, first, last, cap)

    for name in terms.names:
        terms[name]  # made once, here: the threads only read
    with ThreadPoolExecutor(min(torch.get_num_threads(), heads)) as pool:
        list(pool.map(one_head, range(heads)))
    return AdditiveKL(shares=torch.from_numpy(shares), divergence=torch.from_numpy(divergence))


class SixTermShares(SixTermBlocks):
    """Computes the shares of documents, one call each; made as `SixTermBlocks` is.

    The shares of `additive_kl`, of scores in single precision that are never held all at once.
    """

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """Shares of the terms in KL(α ‖ even attention) in nats, in the order of `TERMS`, float32.

        Raises `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        return self.measure(token_ids, _shares_of_block, keys_last=True)


def _shares_of_block(
    terms: Float[np.ndarray, "term query key"], begin: int | None
) -> Float[np.ndarray, "term query"]:
    """Shares in a block of queries, the first of which is at `begin`; None: all see all keys."""
    _, queries, keys = terms.shape
    last = np.full(queries, keys) if begin is None else np.arange(begin, keys) + 1
    return _shares(terms, 1.0, np.zeros_like(last), last, 0.0, _series())


def visible_keys(n: int, causal: bool, window: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The first key that each of n queries sees, and the one after its last: two arrays [query]."""
    queries = np.arange(n)
    if not causal:
        return np.zeros(n, dtype=np.int64), np.full(n, n)
    first = np.zeros(n, dtype=np.int64) if window is None else np.maximum(queries - window + 1, 0)
    return first, queries + 1


@compiled
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _shares(terms, by_scale, first, last, cap, series):
    """Shares [term query] of a head's terms [term query key].

    by_scale: what terms are multiplied with; query q sees the keys first[q] … last[q] − 1; cap: of
    the scores then, 0 for none; series: `_series()`.
    """
    count, queries, _ = terms.shape
    shares = np.empty((count, queries))
    widest = 2 * series.a[-1]
    for q in range(queries):
        seen = slice(first[q], last[q])
        z = _scores(terms, by_scale, q, seen)
        least, largest = _ends(z)
        if cap > 0 or largest - least > widest:
            weights = _by_exponentials(z, cap)
        else:
            weights = _by_series(z, largest, largest - least, series)
        for term in range(count):
            shares[term, q] = by_scale * _dot(weights, terms[term, q, seen])
    return shares


@compiled
@no_type_check
def _divergence(terms, by_scale, first, last, cap):
    """KL(attention ‖ even attention) [query] by its definition; arguments as of `_shares`."""
    divergence = np.empty(terms.shape[1])
    for q in range(terms.shape[1]):
        z = _scores(terms, by_scale, q, slice(first[q], last[q]))
        if cap > 0:
            z = cap * np.tanh(z / cap)
        z -= _ends(z)[1]
        powers = np.empty_like(z)
        total = _exponentials(z, powers)
        divergence[q] = _dot(powers, z) / total - np.log(total) + np.log(len(z))
    return divergence


@compiled
@no_type_check
def _scores(terms, by_scale, q, seen):
    """z of the keys that query q sees, float64."""
    z = np.zeros(seen.stop - seen.start)
    for term in range(len(terms)):
        _add(by_scale, terms[term, q, seen], z)
    return z


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})  # sums may be taken in any order
@no_type_check
def _by_series(z, largest, spread, series):
    """p(1) − ∫ p(t) dt for scores within the widest table."""
    table = 0
    while series.a[table] < spread / 2:
        table += 1
    degree = series.degree[table]
    x = (z - largest) / series.a[table] + 1
    moments = _chebyshev_moments(x, degree)
    g = np.zeros(degree + 1)
    for point in range(series.points[table]):
        c = series.coefficients[table, point, : degree + 1]
        _add(series.weights[table, point] / _dot(c, moments), c, g)
    return _chebyshev_sum(x, g)


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def _chebyshev_moments(x, degree):
    """Σ_j T_m(x_j) for m = 0 … degree, by T_{m+1} = 2x T_m − T_{m−1}: four m in a pass over x."""
    moments = np.empty(degree + 1)
    moments[0] = len(x)
    T_m = np.ones_like(x)  # of m = 0
    T_next = x.copy()  # of m = 1
    for m in range(0, degree, 4):
        sum_1 = sum_2 = sum_3 = sum_4 = 0.0
        for j in range(len(x)):
            twice = 2 * x[j]
            T_1 = T_next[j]
            T_2 = twice * T_1 - T_m[j]
            T_3 = twice * T_2 - T_1
            T_4 = twice * T_3 - T_2
            T_next[j] = twice * T_4 - T_3
            T_m[j] = T_4
            sum_1 += T_1
            sum_2 += T_2
            sum_3 += T_3
            sum_4 += T_4
        moments[m + 1] = sum_1
        moments[m + 2] = sum_2
        moments[m + 3] = sum_3
        moments[m + 4] = sum_4
    return moments


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def _chebyshev_sum(x, g):
    """Σ_m g_m T_m(x_j) by Clenshaw's recurrence b_m = g_m + 2x b_{m+1} − b_{m+2}."""
    b_next = np.zeros_like(x)
    b_after = np.zeros_like(x)
    for m in range(len(g) - 1, 0, -4):
        g_3 = g[m - 1]
        g_2 = g[m - 2]
        g_1 = g[m - 3]
        for j in range(len(x)):
            twice = 2 * x[j]
            b_4 = g[m] + twice * b_next[j] - b_after[j]
            b_3 = g_3 + twice * b_4 - b_next[j]
            b_2 = g_2 + twice * b_3 - b_4
            b_next[j] = g_1 + twice * b_2 - b_3
            b_after[j] = b_2
    for j in range(len(x)):
        b_next[j] = g[0] + x[j] * b_next[j] - b_after[j]
    return b_next


@compiled
@no_type_check
def _by_exponentials(z, cap):
    """p(1) − ∫ p(t) dt, or with a cap the gradient's integral, an exponential a point and key."""
    least, largest = _ends(z)
    below = z - largest
    spread = largest - least
    weights = np.zeros_like(z)
    # A cap bends the path, the sooner the larger a score is; tanh is no easy one to integrate.
    if cap > 0:
        spread = max(spread, 16 * max(largest, -least) / cap)
    else:
        _add_softmax(1.0, below, weights)
    start = 0.0
    end = 1.0 if spread <= _FIRST_PANEL else _FIRST_PANEL / spread
    while start < 1.0:
        for point in range(len(_POINTS)):
            t = start + (end - start) * _POINTS[point]
            step = (end - start) * _WEIGHTS[point]
            if cap > 0:
                _add_gradient(t, step, z, cap, weights)
            else:
                _add_softmax(-step, t * below, weights)
        start = end
        end = min(1.0, 2 * end)
    return weights


@compiled(fastmath={"reassoc", "nnan", "nsz"})  # so that eight are compared at a time
@no_type_check
def _ends(z):
    """The least and the largest of z, which holds no NaN."""
    least = largest = z[0]
    for j in range(len(z)):
        least = min(least, z[j])
        largest = max(largest, z[j])
    return least, largest


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def _exponentials(logits, out):
    """Fill `out` with e^logits; returns their sum."""
    total = 0.0
    for j in range(len(logits)):
        out[j] = exponential_double(logits[j])
        total += out[j]
    return total


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def _add(factor, terms, out):
    for j in range(len(out)):
        out[j] += factor * terms[j]


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def _dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
@no_type_check
def _add_softmax(factor, below, weights):
    """Add factor · softmax of scores whose largest one is 0."""
    powers = np.empty_like(below)
    total = _exponentials(below, powers)
    _add(factor / total, powers, weights)


@compiled
@no_type_check
def _add_gradient(t, step, z, cap, weights):
    """Add the gradient of KL at the scores t z, which are capped, by the scores."""
    bent = np.tanh(t * z / cap)
    p = np.zeros_like(z)
    _add_softmax(1.0, cap * (bent - _ends(bent)[1]), p)
    weights += step * cap * p * (bent - _dot(p, bent)) * (1 - bent**2)
