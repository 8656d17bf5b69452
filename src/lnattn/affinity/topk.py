"""The best partners of tokens, and the strongest pairs of the whole vocabulary squared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.affinity.scores import for_each_score_block
from lnattn.attention.vectors import Side, TokenVectors
from lnattn.compiled import compiled
from lnattn.errors import TokenError
from lnattn.ids import whole_ids
from lnattn.inputs import one_of, require, whole_number
from lnattn.progress import progress_bar

#: Neighbouring scores that are compared with the worst best one together.
_CHUNK = 64


@compiled
@no_type_check  # keeps the tests' shape checker away from what numba compiles
def _best_of_rows(scores, values, ids):
    """Fill `values` with the best scores of each row, descending, and `ids` with their columns.

    values: −∞ at the start; of equal scores the first column stays. Almost no score is among the
    best, so 64 are looked at together first.
    """
    last = values.shape[1] - 1
    for r in range(len(scores)):
        for begin in range(0, scores.shape[1], _CHUNK):
            chunk = scores[r, begin : begin + _CHUNK]
            better = 0
            for v in range(len(chunk)):
                better += chunk[v] > values[r, last]
            if not better:
                continue
            for v in range(len(chunk)):
                if chunk[v] > values[r, last]:
                    k = last
                    while k > 0 and values[r, k - 1] < chunk[v]:
                        values[r, k] = values[r, k - 1]
                        ids[r, k] = ids[r, k - 1]
                        k -= 1
                    values[r, k] = chunk[v]
                    ids[r, k] = begin + v


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
    comes first. Kamoda et al. 2025, App. C. Raises `TokenError` for a k or a token outside the
    vocabulary, or a side that is none.
    """
    require(vectors, TokenVectors, "vectors")
    vocab = vectors.vocab_size
    whole_number(k, "k", most=vocab, error=TokenError)
    one_of(side, ("keys", "queries"), "side", error=TokenError)
    if side == "queries":
        vectors = vectors.swapped()
    if token_ids is not None:
        tokens = whole_ids(token_ids, vocab) if len(token_ids) else np.empty(0, dtype=np.int64)
    elif vectors.tokens is not None:
        tokens = vectors.tokens.numpy()
    else:
        tokens = np.arange(vocab)
    shape = (vectors.n_heads, len(tokens), k)
    ids = np.full(shape, -1, dtype=np.int32)
    best = np.full(shape, -np.inf, dtype=vectors.keys.numpy().dtype)
    for head in progress_bar(range(vectors.n_heads), "best partners", unit=" heads"):

        def visit(begin: int, scores: np.ndarray, head: int = head) -> None:
            rows = slice(begin, begin + len(scores))
            _best_of_rows(scores, best[head, rows], ids[head, rows])

        queries = vectors.queries_of(head, None if token_ids is None else torch.from_numpy(tokens))
        for_each_score_block(visit, queries, vectors.keys_of(head))
    return Partners(tokens=tokens, ids=ids, scores=best)


class StrongestPairs(NamedTuple):
    """The pairs with the highest T^ee of all V² pairs of a head, best first: ids and scores."""

    queries: Int[np.ndarray, "head rank"]
    keys: Int[np.ndarray, "head rank"]
    scores: Float[np.ndarray, "head rank"]


def strongest_pairs(vectors: TokenVectors, k: int = 20) -> StrongestPairs:
    """The k strongest pairs of two tokens, of every head, over the whole vocabulary squared.

    Among equal scores the pair with the smaller query id comes first, then the smaller key id.
    Time: one V × V product a head. Memory: k + 1 partners of each token and head. Raises
    `TokenError` for a k outside the vocabulary, or vectors of some query tokens only.
    """
    require(vectors, TokenVectors, "vectors")
    vocab = vectors.vocab_size
    whole_number(k, "k", most=vocab - 1, error=TokenError)
    if vectors.tokens is not None:
        raise TokenError("the queries of all tokens are needed to find the strongest pairs.")
    best = partners(vectors, k=k + 1)  # a token may be among its own
    queries = np.repeat(np.arange(vocab), k + 1)
    strongest: dict[str, list[np.ndarray]] = {"queries": [], "keys": [], "scores": []}
    for ids, scores in zip(best.ids, best.scores, strict=True):
        different = np.flatnonzero(ids.ravel() != queries)
        query = queries[different]
        key = ids.ravel()[different]
        score = scores.ravel()[different]
        first = np.lexsort((key, query, -score))[:k]
        strongest["queries"].append(query[first])
        strongest["keys"].append(key[first])
        strongest["scores"].append(score[first])
    return StrongestPairs(
        queries=np.stack(strongest["queries"]),
        keys=np.stack(strongest["keys"]),
        scores=np.stack(strongest["scores"]),
    )
