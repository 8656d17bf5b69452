"""The best partners of every token, and the strongest pairs of all: streaming over V² scores.

Scores are made a tile at a time by a matrix product and looked at once, while they are still in the
cache. Almost none of them matters: whether any of 64 neighbours beats the worst partner kept so
far is one vectorised comparison, and only then are they looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numba as nb
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.terms import check_indices
from lnattn.errors import TokenError
from lnattn.numerics import vectorised
from lnattn.numerics.compiled import forget_outdated
from lnattn.numerics.vectorised import widest
from lnattn.progress import progress_bar
from lnattn.studies.affinity.scores import BLOCK_BYTES, look_at_scores
from lnattn.studies.affinity.vectors import Side, TokenVectors

_CHUNK = 64
#: A score may exceed the product of two lengths by so much, relative to it, in float32.
_ROUNDING = 1e-4


@nb.njit(cache=True, nogil=True)
@no_type_check
def _best_of_rows(scores, first, skip, values, ids):
    """Keep the best scores of every row in `values`, descending, and their columns in `ids`.

    A score must exceed what `values` holds at the start; of equal ones the first column stays.
    first: column of the first score; skip: for each row a column that is passed over.
    """
    widest()
    columns, last = scores.shape[1], values.shape[1] - 1
    whole = columns // _CHUNK * _CHUNK
    for r in range(len(scores)):
        limit = values[r, last]
        for begin in range(0, whole, _CHUNK):
            better = nb.int32(0)
            for v in range(_CHUNK):  # a fixed number of turns: the compiler makes it vectors
                better += nb.int32(scores[r, begin + v] > limit)
            if better > 0:
                for v in range(begin, begin + _CHUNK):
                    if scores[r, v] > limit and first + v != skip[r]:
                        _insert(values[r], ids[r], scores[r, v], first + v)
                        limit = values[r, last]
        for v in range(whole, columns):
            if scores[r, v] > limit and first + v != skip[r]:
                _insert(values[r], ids[r], scores[r, v], first + v)
                limit = values[r, last]


@nb.njit(inline="always")
@no_type_check
def _insert(values, ids, score, column):
    """Put a score where it belongs, after its equals; the last one drops out."""
    k = len(values) - 1
    while k > 0 and values[k - 1] < score:
        values[k], ids[k] = values[k - 1], ids[k - 1]
        k -= 1
    values[k], ids[k] = score, column


def _find_best(
    queries: Tensor,
    keys: Tensor,
    skip: np.ndarray,
    values: np.ndarray,
    ids: np.ndarray,
    device: str | torch.device | None = None,
) -> None:
    """`_best_of_row` for every row of queries keysᵀ."""

    def look(begin: int, first: int, scores: np.ndarray) -> None:
        rows = slice(begin, begin + len(scores))
        _best_of_rows(scores, first, skip[rows], values[rows], ids[rows])

    look_at_scores(look, queries, keys, device, tiles=True)


@dataclass(frozen=True, eq=False)
class Partners:
    """The best partners of some tokens in every head, best first.

    tokens: whose partners they are, [token]; ids: int32, scores: float, both [head token rank].
    """

    tokens: Int[np.ndarray, "token"]
    ids: Int[np.ndarray, "head token rank"]
    scores: Float[np.ndarray, "head token rank"]


def partners(
    vectors: TokenVectors,
    token_ids: Int[Tensor, "n"] | Int[np.ndarray, "n"] | Sequence[int] | None = None,
    k: int = 10,
    side: Side = "keys",
    *,
    same_token: bool = True,
    device: str | torch.device | None = None,
) -> Partners:
    """The k tokens with the highest T^ee for each given token, in every head.

    token_ids: in this order; all tokens where None. side "keys": the given tokens are queries, and
    their favourite keys are returned; "queries": they are keys, and the queries that like them
    best are returned. same_token: False leaves out the token itself. Among equal scores the
    smaller id comes first. Memory: the answer and a tile of scores for each thread. device: as
    for `look_at_scores`.

    Raises `TokenError` for a k or a token outside the vocabulary.
    """
    vocab = vectors.vocab_size
    _check_k(k, vocab - (not same_token))
    if side not in ("keys", "queries"):
        raise TokenError(f"side must be 'keys' or 'queries', not {side!r}.")
    vectors = vectors if side == "keys" else vectors.swapped()
    if token_ids is None:
        asked = np.arange(vocab) if vectors.tokens is None else vectors.tokens.numpy()
    else:
        asked = np.asarray(token_ids, dtype=np.int64)
    check_indices(torch.from_numpy(asked), vocab, "token id", "the vocabulary")
    shape = (vectors.n_heads, len(asked), k)
    ids = np.full(shape, -1, dtype=np.int32)
    scores = np.full(shape, -np.inf, dtype=vectors.keys.numpy().dtype)
    own = asked if not same_token else np.full(len(asked), -1)
    for head in progress_bar(range(vectors.n_heads), "best partners", unit=" heads"):
        queries = vectors.queries_of(head, None if token_ids is None else torch.from_numpy(asked))
        _find_best(queries, vectors.keys_of(head), own, scores[head], ids[head], device)
    return Partners(asked, ids, scores)


@dataclass(frozen=True, eq=False)
class StrongestPairs:
    """The pairs with the highest T^ee of all V² pairs of a head, best first.

    queries, keys: token ids, [head rank]; scores: [head rank].
    """

    queries: Int[np.ndarray, "head rank"]
    keys: Int[np.ndarray, "head rank"]
    scores: Float[np.ndarray, "head rank"]


def strongest_pairs(
    vectors: TokenVectors, k: int = 20, *, same_token: bool = False
) -> StrongestPairs:
    """The k strongest pairs of every head over the whole vocabulary squared.

    same_token: True lets a token be paired with itself. A score is at most the product of the two
    vectors' lengths; where that is below the k-th best so far it is not even made, which spares
    the more scores the more the tokens' vectors differ in length. Among equal scores the pair with
    the smaller query id comes first, then the smaller key id.
    """
    _check_k(k, vectors.vocab_size - (not same_token))
    if vectors.tokens is not None:
        raise TokenError("the queries of all tokens are needed to find the strongest pairs.")
    own = np.arange(vectors.vocab_size) if not same_token else np.full(vectors.vocab_size, -1)
    found = [
        _strongest_of_head(vectors.queries_of(head), vectors.keys_of(head), k, own)
        for head in progress_bar(range(vectors.n_heads), "strongest pairs", unit=" heads")
    ]
    queries, keys, scores = (np.stack(part) for part in zip(*found, strict=True))
    return StrongestPairs(queries, keys, scores)


def _strongest_of_head(
    queries: Tensor, keys: Tensor, k: int, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Long queries first: no score exceeds |q| |k|, so most keys are soon too short to matter."""
    dtype = keys.numpy().dtype
    best = np.full(k, -np.inf, dtype=dtype)
    best_query, best_key = np.full(k, -1), np.full(k, -1)
    reach, length = (side.norm(dim=1).numpy() * (1 + _ROUNDING) for side in (queries, keys))
    order, begin = np.argsort(-reach), 0
    while begin < len(order):
        long = np.flatnonzero(reach[order[begin]] * length >= best[-1])
        if not len(long):
            break
        height = max(1, BLOCK_BYTES // (keys.element_size() * len(long)))
        rows = np.sort(order[begin : begin + height])
        begin += height
        # Equal scores are to be seen too: which of them comes first is decided by the ids.
        values = np.full((len(rows), k), np.nextafter(best[-1], dtype.type(-np.inf)), dtype=dtype)
        ids = np.full((len(rows), k), -1, dtype=np.int32)
        place = np.searchsorted(long, own[rows])
        skip = np.where(long[np.minimum(place, len(long) - 1)] == own[rows], place, -1)
        _find_best(queries[rows], keys[long], skip, values, ids)
        row, column = np.nonzero(ids >= 0)
        candidates = np.concatenate([best, values[row, column]])
        query = np.concatenate([best_query, rows[row]])
        key = np.concatenate([best_key, long[ids[row, column]]])
        first = np.lexsort((key, query, -candidates))[:k]
        best, best_query, best_key = candidates[first], query[first], key[first]
    return best_query, best_key, best


def _check_k(k: int, most: int) -> None:
    if not 1 <= k <= most:
        raise TokenError(f"k must be between 1 and {most} for this vocabulary, not {k}.")


forget_outdated(__name__, vectorised)
