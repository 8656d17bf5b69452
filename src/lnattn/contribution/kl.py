"""KL divergence of removing each term from attention, for every query and head of a document.

Removing a term T from the scores of a query changes its attention from p to q ∝ p·e^{−t}, where
t = T/scale. No second softmax is needed (Kamoda et al. 2025, Eq. 18–21, with q written out)::

    KL(p ‖ q) = log E_p[e^{−u}] = log1p(E_p[e^{−u} − 1 + u]),   u = t − E_p[t].

All summands are ≥ 0, and small u go through a series, so that tiny divergences keep their digits.
Scores are made a block of queries at a time, each head on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block
from lnattn.attention.layernorm import sigma
from lnattn.attention.terms import TERMS, input_rows
from lnattn.errors import ShapeError
from lnattn.inputs import real_number, require
from lnattn.products import multiply, one_thread_a_call
from lnattn.weights import Embeddings, check_width

#: Queries whose scores a thread holds at one time: few stay in cache, many make fast products.
_BLOCK = 64
#: Up to this `|u|`, e^{−u} − 1 + u is summed as a series.
_SMALL = 0.06
#: Beyond this −u, e^{−u} is taken with its largest value divided out.
_LARGE = 30.0


class SixTermKL:
    """Computes the divergences of documents, one call each, for one model and one scale.

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

    def __call__(self, token_ids: Int[Tensor, "n"] | list[int]) -> Float[np.ndarray, "term head n"]:
        """KL(α ‖ α without T) in nats for T in the order of `TERMS`, float32.

        Raises `TokenError` for an empty document, one longer than the context, or an unknown token.
        """
        tokens, positions = input_rows(self._embeddings, token_ids)
        n = len(tokens)
        heads = len(self._projection)
        kl = np.empty((len(TERMS), heads, n), dtype=np.float32)
        # A text repeats its words: each distinct token is projected once.
        all_ids = torch.as_tensor(token_ids).cpu()
        ids, inverse = torch.unique(all_ids, return_inverse=True)
        distinct = self._embeddings.tokens()[ids]

        def one_head(head: int) -> None:
            of_tokens = (distinct @ self._projection[head])[inverse]
            of_positions = self._projected_positions[head, :n]
            both_parts = torch.stack([of_tokens, of_positions]) * over_sigma
            queries_of_parts, keys = both_parts.chunk(2, dim=2)
            queries = queries_of_parts.flatten(0, 1)
            buffer = torch.empty(2, 2 * _BLOCK * n)  # fresh memory would be zeroed for every block
            for first in range(0, n, _BLOCK):
                last = min(first + _BLOCK, n)
                seen = last if self._causal else n
                rows = torch.cat([queries[first:last], queries[n + first : n + last]])
                products: list[Tensor] = []
                for part in range(2):  # of the keys
                    out = buffer[part, : len(rows) * seen].view(len(rows), seen)
                    products += multiply(rows, keys[part, :seen].T, out=out).chunk(2)
                by_name = dict(zip(("ee", "pe", "ep", "pp"), products, strict=True))
                terms = [by_name[name].numpy() for name in ("ee", "ep", "pe", "pp")]
                terms += [np.broadcast_to(row[:seen], terms[0].shape) for row in alone[:, :, head]]
                begin = first if self._causal else None
                kl[:, head, first:last] = divergences(terms, begin)

        threads = min(torch.get_num_threads(), heads)
        with one_thread_a_call(), ThreadPoolExecutor(threads) as pool:
            over_sigma = 1 / sigma(tokens + positions, self._eps)[:, None]
            both = torch.stack([tokens @ self._alone, positions @ self._alone])
            alone = (both * over_sigma).numpy()
            list(pool.map(one_head, range(heads)))
        return kl


def divergences(
    terms: Sequence[Float[np.ndarray, "query key"]], first: int | None = None
) -> Float[np.ndarray, "term query"]:
    """KL of removing each of the terms from the softmax of their sum, for a block of queries.

    first: the position of the block's first query, which sees no later key; None: all see all.
    """
    log_p = np.array(terms[0])
    for term in terms[1:]:
        log_p += term
    shape = log_p.shape
    # Columns from here on hold keys that some query of the block does not see.
    corner = slice(shape[1] if first is None else first, None)
    hidden = ~np.tri(shape[0], shape[1] - corner.start, dtype=bool)
    np.copyto(log_p[:, corner], -np.inf, where=hidden)
    log_p -= log_p.max(axis=1, keepdims=True)
    p = np.exp(log_p)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    divergence = np.empty((len(terms), shape[0]))
    u, f, series, near = np.empty((4, *shape), p.dtype)
    for row, t in enumerate(terms):
        np.subtract(t, np.einsum("qk,qk->q", p, t)[:, None], out=u)
        np.copyto(u[:, corner], 0, where=hidden)
        lowest = u.min(axis=1)
        np.negative(u, out=f)
        np.minimum(f, _LARGE, out=f)
        np.exp(f, out=f)
        f -= 1
        f += u
        np.abs(u, out=series)
        np.less(series, _SMALL, out=near)
        np.multiply(u, 1 / 24, out=series)
        series -= 1 / 6
        series *= u
        series += 0.5
        series *= u
        series *= u
        series *= near  # 0 or 1: to choose by arithmetic takes a tenth of the time of a mask
        f *= np.subtract(1, near, out=near)
        f += series
        divergence[row] = np.log1p(np.einsum("qk,qk->q", p, f).astype(np.float64))
        for query in np.flatnonzero(lowest < -_LARGE):
            rest = log_p[query].astype(np.float64) - u[query]
            top = rest.max()
            divergence[row, query] = top + np.log(np.exp(rest - top).sum() / total[query, 0])
    return divergence
