"""KL divergence of removing each term from attention, for every query and head of a document.

Removing a term T from the scores of a query changes its attention from p to q ∝ p·e^{−t}, where
t = T/scale. No second softmax is needed (Kamoda et al. 2025, Eq. 18–21, with q written out)::

    KL(p ‖ q) = log E_p[e^{−u}] = log1p(E_p[e^{−u} − 1 + u]),   u = t − E_p[t].

All summands are ≥ 0 and computed without cancellation, so that tiny divergences keep their digits.
Scores are made a block of queries at a time, each head on a thread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import logsumexp

from lnattn.attention.folding import FoldedAttention, first_block
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import TERMS, input_rows
from lnattn.compiled import compiled
from lnattn.errors import ShapeError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import real_number, require
from lnattn.products import multiply, one_thread_a_call
from lnattn.weights import Embeddings, check_width

#: Queries whose scores a thread holds at one time: few stay in cache, many make fast products.
_BLOCK = 64
#: Of the first four terms, the part of the query and that of the key: 0 for token, 1 for position.
PRODUCTS = ((0, 0), (0, 1), (1, 0), (1, 1))
#: Beyond this −u, e^{−u} is taken with its largest value divided out.
_LARGE = np.float32(30)
_LN_2 = np.float32(math.log(2))
_PER_LN_2 = np.float32(1 / math.log(2))
_ONE = np.float32(1)
#: The last term of the series of e^r, 1/8!.
_LAST = np.float32(1 / math.factorial(8))


class SixTermBlocks:
    """What is measured on the six terms of a document's scores, for one model and one scale.

    scale: what the scores are divided by before the softmax (default: the model's own). Single
    precision. Raises `TokenError` for a checkpoint without token embeddings, and `ShapeError` for a
    layer with a local window, a scale that is not positive, or weights of another kind or width.
    """

    def __init__(
        self, folded: FoldedAttention, embeddings: Embeddings, scale: float | None = None
    ) -> None:
        first_block(folded)
        require(embeddings, Embeddings, "embeddings")
        check_width(embeddings.d_model, folded.d_model)
        if scale is not None:
            real_number(scale, "scale", least=0, open_ends=True)
        if folded.window is not None:
            raise ShapeError(
                "the six divergences need a layer whose queries see all earlier keys; this one "
                f"sees only the last {folded.window}."
            )
        input_rows(embeddings, [0])  # one clear error now for a checkpoint without token embeddings
        self._embeddings = embeddings.to(torch.float32)
        self._eps = folded.eps
        self._causal = folded.causal
        shrink = 1.0 / (folded.scale if scale is None else scale)
        # [head d_model 2·d_head]: queries, already divided by the scale, beside keys.
        self._projection = torch.cat([folded.W_Q * shrink, folded.W_K], dim=2).float()
        self._projected_positions = self._embeddings.W_P @ self._projection
        # [d_model head]: what a key asserts alone, whatever the query.
        self._alone = (folded.b_QK.T * shrink).float()

    def measure(
        self,
        token_ids: TokenIds,
        of_block: Callable[[np.ndarray, int | None], np.ndarray],
        keys_last: bool,
    ) -> Float[np.ndarray, "term head n"]:
        """`of_block` of each block of queries of each head, float32.

        of_block: from the block's terms, float32 [term query key], or [term key query] unless
        `keys_last`, and the position of its first query, None where all queries see all keys, to
        [term query]. Raises as `SixTermKL` does.
        """
        tokens, positions = input_rows(self._embeddings, token_ids)
        n = len(tokens)
        heads = len(self._projection)
        measured = np.empty((len(TERMS), heads, n), dtype=np.float32)
        # A text repeats its words: each distinct token is projected once.
        all_ids = torch.from_numpy(whole_ids(token_ids))
        ids, inverse = torch.unique(all_ids, return_inverse=True)
        distinct = self._embeddings.tokens()[ids]

        def one_head(head: int) -> None:
            of_tokens = (distinct @ self._projection[head])[inverse]
            of_positions = self._projected_positions[head, :n]
            both_parts = torch.stack([of_tokens, of_positions]) * over_sigma
            queries, keys = both_parts.chunk(2, dim=2)
            buffer = torch.empty(len(TERMS), n * _BLOCK)  # fresh memory would be zeroed each time
            for first in range(0, n, _BLOCK):
                last = min(first + _BLOCK, n)
                seen = last if self._causal else n
                sides = (last - first, seen) if keys_last else (seen, last - first)
                terms = buffer[:, : seen * (last - first)].view(len(TERMS), *sides)
                for row, (query, key) in enumerate(PRODUCTS):
                    pair = [keys[key, :seen], queries[query, first:last]]
                    if keys_last:
                        pair.reverse()
                    multiply(pair[0], pair[1].T, out=terms[row])
                asserted = alone[:, :seen, head]
                terms[len(PRODUCTS) :] = asserted[:, None] if keys_last else asserted[..., None]
                begin = first if self._causal else None
                measured[:, head, first:last] = of_block(terms.numpy(), begin)

        threads = min(torch.get_num_threads(), heads)
        with one_thread_a_call(), ThreadPoolExecutor(threads) as pool:
            over_sigma = 1 / sigma(tokens + positions, self._eps)[:, None]
            both = torch.stack([tokens @ self._alone, positions @ self._alone])
            alone = both * over_sigma
            list(pool.map(one_head, range(heads)))
        return measured


class SixTermKL(SixTermBlocks):
    """Computes the divergences of documents, one call each; made as `SixTermBlocks` is."""

    def __call__(self, token_ids: TokenIds) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `TERMS`, float32.

        Raises `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        return self.measure(token_ids, divergences, keys_last=False)


@np.errstate(under="ignore")  # a key far below the best has no share
def divergences(
    terms: Float[np.ndarray, "term key query"], first: int | None = None
) -> Float[np.ndarray, "term query"]:
    """KL of removing each of the terms from the softmax of their sum, for a block of queries.

    terms: float32. first: the position of the block's first query, which sees no later key; None:
    all see all.
    """
    count, keys, queries = terms.shape
    begin = keys if first is None else first
    log_p = _add_up(terms, begin)
    p = _softmax(log_p, begin)
    divergence = np.empty((count, queries))
    for row, term in enumerate(terms):
        mean, excess, fall = _moments(term, p)
        divergence[row] = np.log1p(excess.astype(np.float64))
        for query in np.flatnonzero(fall > _LARGE):
            rest = log_p[:, query].astype(np.float64) - term[:, query] + mean[query]
            divergence[row, query] = logsumexp(rest)
    return divergence


# Below, queries are side by side in memory, so that sums over keys run in all of them at once.


@compiled(error_model="numpy")
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _add_up(terms, first):
    """The sum of the terms [key query], −∞ where a query before key j's does not see it."""
    count, keys, queries = terms.shape
    scores = np.zeros((keys, queries), np.float32)
    for j in range(keys):
        for t in range(count):
            for q in range(queries):
                scores[j, q] += terms[t, j, q]
        scores[j, : max(0, j - first)] = -np.inf
    return scores


@compiled(error_model="numpy")
@no_type_check
def _softmax(scores, first):
    """p [key query]; scores become log p."""
    keys, queries = scores.shape
    largest = scores[0].copy()
    for j in range(keys):
        for q in range(queries):
            largest[q] = max(largest[q], scores[j, q])
    p = np.empty_like(scores)
    total = np.zeros_like(largest)
    for j in range(keys):
        for q in range(queries):
            p[j, q] = _exponential(scores[j, q] - largest[q])
        p[j, : max(0, j - first)] = 0
        total += p[j]
    log_total = np.log(total)
    for j in range(keys):
        for q in range(queries):
            scores[j, q] -= largest[q] + log_total[q]
            p[j, q] /= total[q]
    return p


@compiled(error_model="numpy")
@no_type_check
def _moments(term, p):
    """E_p[t], E_p[e^{−u} − 1 + u] and the largest −u of each query, for a term [key query]."""
    keys, queries = term.shape
    zero = np.float32(0)
    mean = np.zeros_like(p[0])
    for j in range(keys):
        for q in range(queries):
            mean[q] += p[j, q] * term[j, q]
    excess = np.zeros_like(mean)
    largest = np.zeros_like(mean)
    for j in range(keys):
        for q in range(queries):
            fall = mean[q] - term[j, q]
            largest[q] = max(largest[q], fall if p[j, q] > 0 else zero)
            excess[q] += p[j, q] * _exponential_excess(min(fall, _LARGE))
    return mean, excess, largest


# The library's e^x cannot be compiled into the loop around it, which then takes one number at a
# time. Here x = k ln 2 + r with a whole k and |r| ≤ ln 2 / 2: the bits of 2^k are written down, and
# what depends on r is a short series.


@compiled(error_model="numpy")
@no_type_check
def _exponential(x):
    """e^x of a float32 below 88, to a few units in its last digit; 10^−38 for all below −87."""
    x = max(x, np.float32(-87))
    k = np.floor(x * _PER_LN_2 + np.float32(0.5))
    r = x - k * _LN_2
    return _power_of_two(k) * (_ONE + r + _tail(r))


@compiled(error_model="numpy")
@no_type_check
def _exponential_excess(x):
    """e^x − 1 − x of a float32 below 88, which is ≥ 0, with the digits of a tiny one.

    = 2^k (e^r − 1 − r) + (2^k − 1)(1 + r) − k ln 2, where nothing cancels for k = 0; below −87,
    e^x no longer matters, and −x does.
    """
    bounded = max(x, np.float32(-87))
    k = np.floor(bounded * _PER_LN_2 + np.float32(0.5))
    r = bounded - k * _LN_2
    power = _power_of_two(k)
    return power * _tail(r) + ((power - _ONE) * (_ONE + r) - k * _LN_2) + (bounded - x)


@compiled(error_model="numpy")
@no_type_check
def _tail(r):
    """e^r − 1 − r = r²/2! + … + r^8/8!, for small r."""
    term = series = _LAST
    for i in range(8, 2, -1):
        term *= np.float32(i)
        series = term + series * r
    return series * r * r


@compiled(error_model="numpy")
@no_type_check
def _power_of_two(k):
    """2^k for a whole number k in float32, −126 … 127."""
    return np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
