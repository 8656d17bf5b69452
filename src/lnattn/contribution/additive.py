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

The integral is a sum over 16 points in each of few panels, which double in length and begin with
one so short that no score in it differs by more than 8 nats. Its error in the sum of the shares is
known for every query, as the divergence itself is (`AdditiveKL.error`); for scores that differ by
1,000 nats at most it stays below 1e-10.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, no_type_check

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.terms import PairTerms
from lnattn.compiled import compiled
from lnattn.exponential import exponential_double
from lnattn.inputs import require

_LEGENDRE = np.polynomial.legendre.leggauss(16)
#: Points and weights of Gauss and Legendre on 0 … 1.
_POINTS = (_LEGENDRE[0] + 1) / 2
_WEIGHTS = _LEGENDRE[1] / 2
#: By how much two scores may differ in the first panel, in nats.
_FIRST_PANEL = 8.0


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
    the terms' own dtype; time is some 50 exponentials a score, memory one head's scores for each
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
    scale = terms.folded.scale
    cap = getattr(terms.folded, "soft_cap", None) or 0.0
    shares = np.empty((len(terms.names), heads, n))
    divergence = np.empty((heads, n))

    def one_head(head: int) -> None:
        parts = [terms[name][head].double().numpy() / scale for name in terms.names]
        scores = sum(parts)
        weights = np.zeros_like(scores)
        divergence[head] = _path_weights(scores, first, last, cap, _POINTS, _WEIGHTS, weights)
        for row, part in enumerate(parts):
            shares[row, head] = np.einsum("qk,qk->q", weights, part)

    for name in terms.names:
        terms[name]  # made once, here: the threads only read
    with ThreadPoolExecutor(min(torch.get_num_threads(), heads)) as pool:
        list(pool.map(one_head, range(heads)))
    return AdditiveKL(shares=torch.from_numpy(shares), divergence=torch.from_numpy(divergence))


def visible_keys(n: int, causal: bool, window: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The first key that each of n queries sees, and the one after its last: two arrays [query]."""
    queries = np.arange(n)
    if not causal:
        return np.zeros(n, dtype=np.int64), np.full(n, n)
    first = np.zeros(n, dtype=np.int64) if window is None else np.maximum(queries - window + 1, 0)
    return first, queries + 1


@compiled
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _path_weights(scores, first, last, cap, points, point_weights, out):
    """Fill `out` [query key] with what a term's scores are weighted by; returns KL [query].

    scores: [query key], over the scale; query q sees the keys first[q] … last[q] − 1; cap: of the
    scores, 0 for none.
    """
    divergence = np.empty(len(scores))
    for q in range(len(scores)):
        z = scores[q, first[q] : last[q]]
        weights = out[q, first[q] : last[q]]
        below = z - z.max()
        spread = -below.min()
        # A cap bends the path, the sooner the larger a score is; tanh is no easy one to integrate.
        if cap > 0:
            spread = max(spread, 16 * np.abs(z).max() / cap)
        start = 0.0
        end = 1.0 if spread <= _FIRST_PANEL else _FIRST_PANEL / spread
        while start < 1.0:
            for point in range(len(points)):
                t = start + (end - start) * points[point]
                step = (end - start) * point_weights[point]
                if cap > 0:
                    _add_gradient(t, step, z, cap, weights)
                else:
                    _subtract_softmax(t, step, below, weights)
            start = end
            end = min(1.0, 2 * end)
        logits = cap * np.tanh(z / cap) if cap > 0 else z
        p = _softmax(logits)
        if cap == 0:
            weights += p
        top = logits.max()
        log_sum = top + np.log(np.exp(logits - top).sum())
        divergence[q] = (p * logits).sum() - log_sum + np.log(len(z))
    return divergence


@compiled(error_model="numpy", fastmath={"reassoc"})  # the sum may be taken in any order
@no_type_check
def _subtract_softmax(t, step, below, weights):
    """Subtract step · softmax(t z) from the weights; below: z − max z."""
    powers = np.empty_like(below)
    total = 0.0
    for j in range(len(below)):
        powers[j] = exponential_double(t * below[j])
        total += powers[j]
    share = step / total
    for j in range(len(below)):
        weights[j] -= share * powers[j]


@compiled
@no_type_check
def _softmax(z):
    weights = np.exp(z - z.max())
    return weights / weights.sum()


@compiled
@no_type_check
def _add_gradient(t, step, z, cap, weights):
    """Add the gradient of KL at the scores t z, which are capped, by the scores."""
    bent = np.tanh(t * z / cap)
    p = _softmax(cap * bent)
    mean = (p * bent).sum()
    weights += step * cap * p * (bent - mean) * (1 - bent**2)
