"""The best partners of tokens, and the strongest pairs of the whole vocabulary squared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, no_type_check

import numba as nb
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.affinity.scores import for_each_score_block
from lnattn.affinity.vectors import Side, TokenVectors
from lnattn.errors import TokenError
from lnattn.ids import whole_ids
from lnattn.progress import progress_bar

#: Neighbouring scores that are compared with the worst best one together.
_CHUNK = 64


@nb.njit(cache=True, nogil=True)
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _best_of_rows(scores, values, ids):
    """Fill `values` with the best scores of each row, descending, and `ids` with their columns.

    values: −∞ at the start; of equal scores the first column stays. Almost no score is among the
    best, so 64 are looked at together first.
    """
    last = values.shape[1] - 1
    for r in range(len(scores)):
        for begin in range(0, scores.shape[1], _CHUNK):
            some = scores[r, begin : begin + _CHUNK]
            better = 0
            for v in range(len(some)):
                better += some[v] > values[r, last]
            for v in range(len(some) if better else 0):
                if some[v] > values[r, last]:
                    k = last
                    while k > 0 and values[r, k - 1] < some[v]:
                        values[r, k], ids[r, k] = values[r, k - 1], ids[r, k - 1]
                        k -= 1
                    values[r, k], ids[r, k] = some[v], begin + v


class Partners(NamedTuple):
    """The best partners of some `tokens` in every head, best first: their ids and scores."""

    tokens: Int[np.ndarray, "token"]
    ids: Int[np.ndarray, "head token rank"]
    scores: Float[np.ndarray, "head token rank"]


def partners(
    vectors: TokenVectors,
    token_ids: Int[Tensor, "n"] | Int[np.ndarray, "n"] | Sequence[int] | None = None,
    k: int = 10,
    side: Side = "keys",
) -> Partners:
    """The k tokens with the highest T^ee for each given token, in every head.

    token_ids: in this order; all tokens where None. side "keys": the given tokens are queries, and
    their favourite keys are returned; "queries": the reverse. Among equal scores the smaller id
    comes first. Raises `TokenError` for a k or a token outside the vocabulary.
    """
    vocab = vectors.vocab_size
    _check_k(k, vocab)
    if side not in ("keys", "queries"):
        raise TokenError(f"side must be 'keys' or 'queries', not {side!r}.")
    vectors = vectors if side == "keys" else vectors.swapped()
    if token_ids is None:
        tokens = np.arange(vocab) if vectors.tokens is None else vectors.tokens.numpy()
    else:
        tokens = whole_ids(token_ids, vocab) if len(token_ids) else np.empty(0, dtype=np.int64)
    shape = (vectors.n_heads, len(tokens), k)
    ids = np.full(shape, -1, dtype=np.int32)
    best = np.full(shape, -np.inf, dtype=vectors.keys.numpy().dtype)
    for head in progress_bar(range(vectors.n_heads), "best partners", unit=" heads"):

        def visit(begin: int, scores: np.ndarray, head: int = head) -> None:
            rows = slice(begin, begin + len(scores))
            _best_of_rows(scores, best[head, rows], ids[head, rows])

        queries = vectors.queries_of(head, None if token_ids is None else torch.from_numpy(tokens))
        for_each_score_block(visit, queries, vectors.keys_of(head))
    return Partners(tokens, ids, best)


class StrongestPairs(NamedTuple):
    """The pairs with the highest T^ee of all V² pairs of a head, best first: ids and scores."""

    queries: Int[np.ndarray, "head rank"]
    keys: Int[np.ndarray, "head rank"]
    scores: Float[np.ndarray, "head rank"]


def strongest_pairs(vectors: TokenVectors, k: int = 20) -> StrongestPairs:
    """The k strongest pairs of two tokens, of every head, over the whole vocabulary squared.

    Among equal scores the pair with the smaller query id comes first, then the smaller key id.
    Time: one V × V product a head. Memory: k + 1 partners of each token and head.
    """
    vocab = vectors.vocab_size
    _check_k(k, vocab - 1)
    if vectors.tokens is not None:
        raise TokenError("the queries of all tokens are needed to find the strongest pairs.")
    best = partners(vectors, k=k + 1)  # a token may be among its own
    queries, found = np.repeat(np.arange(vocab), k + 1), []
    for ids, scores in zip(best.ids, best.scores, strict=True):
        other = np.flatnonzero(ids.ravel() != queries)
        parts = queries[other], ids.ravel()[other], scores.ravel()[other]
        first = np.lexsort((parts[1], parts[0], -parts[2]))[:k]
        found.append([part[first] for part in parts])
    return StrongestPairs(*(np.stack(part) for part in zip(*found, strict=True)))


def _check_k(k: int, most: int) -> None:
    if not 1 <= k <= most:
        raise TokenError(f"k must be between 1 and {most} for this vocabulary, not {k}.")
