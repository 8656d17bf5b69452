"""Token affinity: T^ee of tokens with tokens, for every head, from the weights alone.

Kamoda et al. 2025, §4: T^ee_{b,a} = e_b W_QK e_aᵀ / (σ_b σ_a) says how much a query token b likes a
key token a, wherever the two stand. As a product query_b · key_a of two vectors of d_head numbers
it needs no V × V table. As in the paper, a token gets one σ, its mean over all positions of the
context (not rounded to float16). Stated before the division by √d_head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, first_block
from lnattn.attention.terms import check_indices, sigma_of_pairs
from lnattn.errors import ShapeError, TokenError
from lnattn.ids import TokenIds
from lnattn.inputs import matrix, plain_tensor, require
from lnattn.stats import blocks
from lnattn.weights import Embeddings, is_finite

#: Numbers in one block of token–position pairs, or of scores: 32 MiB in float32.
_BLOCK = 1 << 23

Side = Literal["keys", "queries"]


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """One vector for each token, side and head; their dot products are the affinities.

    queries: [head row width], of all tokens in order, or of those in `tokens`, which ascend;
    keys: [key_head vocab width], each key head serving a group of neighbouring query heads. T^ee of
    query token b and key token a in head h is queries[h, b] · keys[g, a]. Raises `ShapeError`
    where the two do not fit together, are not finite, or are so large that a score overflows.
    """

    queries: Float[Tensor, "head row width"]
    keys: Float[Tensor, "key_head vocab width"]
    tokens: Int[Tensor, "row"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", plain_tensor(self.queries, "TokenVectors.queries"))
        object.__setattr__(self, "keys", plain_tensor(self.keys, "TokenVectors.keys"))
        self._check_shapes()
        if not (is_finite(self.queries) and is_finite(self.keys)):
            raise ShapeError(
                "token vectors hold NaN or infinite values: some σ is zero or a weight is broken."
            )
        largest_query = float(self.queries.abs().max())
        largest_key = float(self.keys.abs().max())
        bound = largest_query * largest_key * self.queries.shape[2]
        if bound > torch.finfo(self.queries.dtype).max:
            raise ShapeError(
                f"scores of these vectors may overflow {self.queries.dtype}: their numbers reach "
                f"{largest_query:.1e} and {largest_key:.1e}; make them from float64 weights."
            )

    def _check_shapes(self) -> None:
        queries = self.queries.shape
        keys = self.keys.shape
        if len(queries) != 3 or len(keys) != 3 or 0 in (*queries, *keys):
            raise ShapeError(
                "queries and keys must be [head row width] and [key_head vocab width], none of "
                f"them 0, not {list(queries)} and {list(keys)}."
            )
        rows = keys[1] if self.tokens is None else len(self.tokens)
        if queries[1] != rows or queries[2] != keys[2] or queries[0] % keys[0]:
            raise ShapeError(
                f"queries {list(queries)} and keys {list(keys)} do not fit: they need one width, a "
                f"row of queries for each of {rows} tokens, and heads that share keys evenly."
            )
        if self.queries.dtype != self.keys.dtype:
            raise ShapeError(
                f"queries are {self.queries.dtype} but keys {self.keys.dtype}; use .to() on one."
            )

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.queries.shape[0]

    @property
    def vocab_size(self) -> int:
        """How many tokens the vocabulary has."""
        return self.keys.shape[1]

    def queries_of(
        self, head: int, token_ids: Int[Tensor, "n"] | None = None
    ) -> Float[Tensor, "n width"]:
        """The queries of one head: of these tokens, or of all that there are."""
        queries = self.queries[head]
        return queries if token_ids is None else queries[self._rows(token_ids)]

    def keys_of(self, head: int) -> Float[Tensor, "vocab width"]:
        """The keys that a query head is compared with."""
        return self.keys[head * len(self.keys) // self.n_heads]

    @property
    def keys_per_head(self) -> Float[Tensor, "head vocab width"]:
        """Keys repeated for every query head; the keys themselves where there are no groups."""
        group = self.n_heads // len(self.keys)
        return self.keys if group == 1 else self.keys.repeat_interleave(group, dim=0)

    def swapped(self) -> TokenVectors:
        """Keys in the place of queries: what asks for the best *queries* of a key token."""
        if self.tokens is not None:
            raise TokenError("the queries of all tokens are needed to look for the best queries.")
        return TokenVectors(self.keys_per_head, self.queries)

    def shuffled(self, seed: int, *, keys: bool = True) -> TokenVectors:
        """The same vectors given to other tokens at random, the same for both sides: a baseline.

        With keys=False only the queries are permuted, among those that there are: what a head then
        still knows is which keys are popular with everyone.
        """
        if self.tokens is not None and keys:
            raise TokenError("the queries of all tokens are needed to permute them with the keys.")
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(self.queries.shape[1], generator=generator)
        permuted_keys = self.keys[:, order] if keys else self.keys
        return TokenVectors(self.queries[:, order], permuted_keys, self.tokens)

    def scores(self, token_ids: TokenIds) -> Float[Tensor, "head n vocab"]:
        """T^ee of the given query tokens with the whole vocabulary, not divided by √d_head."""
        queries = self.queries[:, self._rows(self._checked(token_ids))]
        # Heads that share keys are one taller matrix: [key_head group·n width].
        shared = queries.reshape(len(self.keys), -1, queries.shape[-1])
        return (shared @ self.keys.mT).reshape(*queries.shape[:2], -1)

    def _rows(self, ids: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """Where the queries of these tokens are."""
        if self.tokens is None:
            return ids
        rows = torch.searchsorted(self.tokens, ids).clamp_max(len(self.tokens) - 1)
        absent = ids[self.tokens[rows] != ids]
        if len(absent):
            raise TokenError(f"the query of token {int(absent[0])} is not among these vectors.")
        return rows

    def _checked(self, token_ids: TokenIds) -> Int[Tensor, "n"]:
        return check_indices(token_ids, self.vocab_size, "token id", "the vocabulary")


def mean_sigma(embeddings: Embeddings, eps: float) -> Float[Tensor, "vocab"]:
    """σ of every token, averaged over all positions: mean_j σ(e_v + p_j).

    Works through the vocabulary in blocks. Kamoda et al. 2025, §4.1. Raises `TokenError` without
    token embeddings, `ShapeError` for other embeddings than of learned positions.
    """
    require(embeddings, Embeddings, "embeddings")
    places = torch.arange(embeddings.n_positions)
    means = embeddings.tokens().new_empty(embeddings.vocab_size)
    # Into one result: small pieces kept between large blocks leave the heap in fragments.
    for rows in blocks(len(means), len(places), _BLOCK):
        ids = torch.arange(rows.start, rows.stop)
        means[rows] = sigma_of_pairs(embeddings, ids, places, eps).mean(dim=1)
    return means


def token_vectors(
    folded: FoldedAttention,
    embeddings: Embeddings,
    sigma: Float[Tensor, "vocab"] | None = None,
    query_ids: Sequence[int] | Int[Tensor, "n"] | None = None,
) -> TokenVectors:
    """e W'_Q / σ and e W'_K / σ of every token: the two factors of T^ee.

    folded: the first layer's block, from `fold`; sigma: [vocab], one divisor for each token; the
    mean over positions (`mean_sigma`) unless given; query_ids: only these query tokens. Kamoda et
    al. 2025, §4.1. Raises `TokenError` for a partial checkpoint or unknown tokens, `ShapeError` for
    weights of another kind, width or dtype, or a divisor that is not positive.

    >>> import lnattn
    >>> model = lnattn.load_first_layer("book-gpt2")
    >>> vectors = token_vectors(lnattn.fold(model.attention), model.embeddings)
    >>> tuple(vectors.scores([464]).shape)  # head, query token, key token
    (8, 1, 8192)
    """
    first_block(folded)
    require(embeddings, Embeddings, "embeddings")
    tokens = matrix(
        embeddings.tokens(), "W_E", "vocab d_model", (None, folded.d_model), folded.W_Q.dtype
    )
    if sigma is None:
        sigma = mean_sigma(embeddings, folded.eps)
    sigma = plain_tensor(sigma, "sigma")
    if sigma.shape != (embeddings.vocab_size,) or not bool((sigma > 0).all()):
        raise ShapeError(
            f"sigma must hold one positive number for each of {embeddings.vocab_size} tokens."
        )
    rows = tokens / sigma[:, None]
    asked = None
    if query_ids is not None:
        ids = check_indices(query_ids, embeddings.vocab_size, "token id", "the vocabulary")
        asked = torch.unique(ids)
    of_queries = rows if asked is None else rows[asked]
    # d_model · d_head multiplications for each token: V-long matrices, but nothing V × V.
    return TokenVectors(of_queries @ folded.W_Q, keys=rows @ folded.W_K, tokens=asked)


def cosine_vectors(embeddings: Embeddings) -> TokenVectors:
    """Vectors whose dot products are cosine similarities of token embeddings, as one 'head'.

    A baseline without attention. A zero embedding has no direction; it is similar to nothing.
    """
    if not isinstance(getattr(embeddings, "W_E", None), Tensor):
        require(embeddings, Embeddings, "embeddings").tokens()  # says what is missing
    tokens = embeddings.tokens()
    length = tokens.norm(dim=1, keepdim=True)
    unit = (tokens / torch.where(length > 0, length, torch.ones_like(length)))[None]
    return TokenVectors(unit, unit)


def ranks(
    vectors: TokenVectors,
    query_ids: Int[Tensor, "n"] | Sequence[int],
    key_ids: Int[Tensor, "n"] | Sequence[int],
) -> Int[Tensor, "pair head"]:
    """Rank of each key among all keys of its query, 1 for the best: Table 1's last number.

    One more than the number of keys with a strictly higher score, so ties share the better rank.
    Raises `TokenError` for ids outside the vocabulary, or that do not come in pairs.
    """
    require(vectors, TokenVectors, "vectors")
    queries = vectors._checked(query_ids)
    keys = vectors._checked(key_ids)
    if len(queries) != len(keys):
        raise TokenError(f"{len(queries)} query tokens cannot be paired with {len(keys)} keys.")
    # One result and two buffers for all blocks: where each block has memory of its own and leaves
    # a piece of the result behind, the heap falls into fragments and grows by gigabytes.
    result = torch.empty(vectors.n_heads, len(queries), dtype=torch.int32)
    tallest = min(len(queries), max(1, _BLOCK // vectors.vocab_size))
    scores = vectors.keys.new_empty(tallest, vectors.vocab_size)
    better = torch.empty(tallest, vectors.vocab_size, dtype=torch.bool)
    for head in range(vectors.n_heads):
        sought = vectors.keys_of(head).T
        for rows in blocks(len(queries), vectors.vocab_size, _BLOCK):
            height = rows.stop - rows.start
            block = scores[:height]
            above = better[:height]
            torch.mm(vectors.queries_of(head, queries[rows]), sought, out=block)
            torch.gt(block, block.gather(1, keys[rows, None]), out=above)
            torch.sum(above, 1, out=result[head, rows])
    return (result + 1).T


def heat_map(vectors: TokenVectors, token_ids: TokenIds) -> Float[Tensor, "head query key"]:
    """T^ee among the given tokens, all with all (Fig. 2B and 12), not divided by √d_head."""
    require(vectors, TokenVectors, "vectors")
    ids = vectors._checked(token_ids)
    return vectors.scores(ids)[..., ids]


def diagonal_z(scores: Float[Tensor, "head n n"]) -> Float[Tensor, "head"]:
    """How far the diagonal of a heat map stands out: its mean z-score, for every head.

    z = (diagonal − mean) / standard deviation, both over the entries off the diagonal. About 0
    for a head that does not care whether a key is the query itself; large and positive for a
    same-token head. Raises `ShapeError` for fewer than 3 tokens or scores without any spread.
    """
    n = scores.shape[-1]
    if scores.ndim != 3 or scores.shape[-2] != n or n < 3:
        raise ShapeError(f"a heat map must be [head n n] with n ≥ 3, not {list(scores.shape)}.")
    off = scores[:, ~torch.eye(n, dtype=torch.bool)]
    spread = off.std(dim=1)
    if bool((spread == 0).any()):
        raise ShapeError("a heat map whose entries are all equal has no z-score.")
    return (scores.diagonal(dim1=1, dim2=2).mean(dim=1) - off.mean(dim=1)) / spread


def same_token_z(vectors: TokenVectors) -> Float[Tensor, "head vocab"]:
    """z-score of T^ee_{v,v} within the row of v against the *whole* vocabulary, for every token.

    The row of query q has mean q · k̄ and variance q Cov(k) qᵀ, so no row is ever computed: this
    costs V · width² instead of V² · width. Rows without any spread (q = 0) get 0. Raises
    `TokenError` for vectors of some query tokens only.
    """
    require(vectors, TokenVectors, "vectors")
    if vectors.tokens is not None:
        raise TokenError("the queries of all tokens are needed to compare each with itself.")
    keys = vectors.keys_per_head
    keys = keys - keys.mean(dim=1, keepdim=True)
    covariance = keys.mT @ keys / vectors.vocab_size
    with_itself = (vectors.queries * keys).sum(dim=-1)
    variance = ((vectors.queries @ covariance) * vectors.queries).sum(dim=-1).clamp_min(0)
    spread = variance.sqrt()
    return torch.where(spread > 0, with_itself / torch.where(spread > 0, spread, 1), 0)
