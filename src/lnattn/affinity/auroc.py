"""Which heads reconstruct bigrams: the AUROC of T^ee against bigram counts, for every head.

Kamoda et al. 2025, §4.2, Fig. 2D. For a query token b, a key token a is a *positive* if the corpus
holds the bigram a b, and counts as often as it occurs; every other token is a *negative*. The AUROC
is the chance that a positive scores higher than a negative, ties counting one half. A token that
never follows another has none: it is left out of a head's mean, where the authors' code takes 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.stats import rankdata

from lnattn.affinity.auroc_kernel import aurocs_of_rows
from lnattn.affinity.scores import for_each_score_block
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import CorpusError, ResultError, TokenError
from lnattn.ids import whole_ids
from lnattn.inputs import checked_bigrams, require, whole_number
from lnattn.progress import progress_bar
from lnattn.stats import bootstrap_means


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For every token the tokens that stand beside it in a corpus, and how often.

    indptr: int64 [vocab + 1]; tokens: int32 and counts: int64, both [pair]. The neighbours of
    token b are tokens[indptr[b] : indptr[b + 1]], each once, counts positive.
    """

    indptr: Int[np.ndarray, "vocab_plus_1"]
    tokens: Int[np.ndarray, "pair"]
    counts: Int[np.ndarray, "pair"]

    @classmethod
    def before(cls, bigrams: sparse.sparray | sparse.spmatrix) -> Neighbours:
        """Predecessors: from counts [previous next], for b the tokens a with count(a, b) > 0.

        Raises `CorpusError` for anything but a square sparse matrix of whole numbers ≥ 0.
        """
        return cls._rows(checked_bigrams(bigrams).tocsc())

    @classmethod
    def after(cls, bigrams: sparse.sparray | sparse.spmatrix) -> Neighbours:
        """Successors: the same for the reversed bigram, count(b, a) > 0. A baseline."""
        return cls._rows(checked_bigrams(bigrams).tocsr())

    @classmethod
    def _rows(cls, matrix: sparse.sparray | sparse.spmatrix) -> Neighbours:
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(
            indptr=matrix.indptr.astype(np.int64),
            tokens=matrix.indices.astype(np.int32),
            counts=matrix.data.astype(np.int64),
        )

    @property
    def vocab_size(self) -> int:
        """How many tokens the vocabulary has."""
        return len(self.indptr) - 1

    def among(self, key_ids: Int[np.ndarray, "key"]) -> Neighbours:
        """Only the neighbours in `key_ids` (ascending), named by their place in it."""
        place = np.full(self.vocab_size, -1, dtype=np.int32)
        place[key_ids] = np.arange(len(key_ids))
        is_key = place[self.tokens] >= 0
        return Neighbours(
            indptr=np.append(0, np.cumsum(is_key))[self.indptr],
            tokens=place[self.tokens[is_key]],
            counts=self.counts[is_key],
        )

    def labels(self, token: int) -> tuple[Bool[np.ndarray, "vocab"], Int[np.ndarray, "vocab"]]:
        """Which keys are positive for one token, and weights, as scikit-learn wants them.

        `roc_auc_score(positive, scores, sample_weight=weight)` is the AUROC of `head_auroc`, and
        `roc_curve` the recall curve of Fig. 2C: share of negatives passed, share of bigrams.
        """
        tokens, counts = self.of(token)
        positive = np.zeros(self.vocab_size, dtype=bool)
        positive[tokens] = True
        weight = np.ones(self.vocab_size, np.int64)
        weight[tokens] = counts
        return positive, weight

    @property
    def n_distinct(self) -> Int[np.ndarray, "vocab"]:
        """How many different neighbours each token has."""
        return np.diff(self.indptr)

    def of(self, token: int) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Neighbours of one token and their counts; `TokenError` outside the vocabulary."""
        whole_number(token, "the token id", 0, self.vocab_size - 1, error=TokenError)
        row = slice(self.indptr[token], self.indptr[token + 1])
        return self.tokens[row], self.counts[row]


@dataclass(frozen=True, eq=False)
class HeadAuroc:
    """AUROC of every head for every query token, float64 [head vocab].

    NaN for query tokens without positives, or without negatives.
    """

    values: Float[np.ndarray, "head vocab"]

    @property
    def defined(self) -> np.ndarray:
        """Query tokens that have an AUROC, bool [vocab]: the same ones for every head."""
        return ~np.isnan(self.values[0])

    def mean(self) -> Float[np.ndarray, "head"]:
        """Mean over the query tokens that have an AUROC."""
        return self._sample().mean(axis=1)

    def interval(
        self, level: float = 0.95, draws: int = 1000, seed: int = 0
    ) -> Float[np.ndarray, "head 2"]:
        """Percentile bootstrap interval of the mean over query tokens, the same draws for all."""
        return bootstrap_means(self._sample(), level, draws, seed)[:, 1:]

    def _sample(self) -> Float[np.ndarray, "head n"]:
        if not self.defined.any():
            raise ResultError("no query token has an AUROC: the counts hold no usable bigram.")
        return self.values[:, self.defined]


def head_auroc(
    vectors: TokenVectors,
    neighbours: Neighbours,
    query_ids: Sequence[int] | np.ndarray | None = None,
    key_ids: Sequence[int] | np.ndarray | None = None,
) -> HeadAuroc:
    """AUROC of T^ee against bigram counts for every head and query token; NaN for those not asked.

    query_ids: which query tokens (default: all of the vectors); key_ids: which keys take part, as
    positives and as negatives (default: all). Equal to scikit-learn's roc_auc_score(count > 0,
    T^ee, sample_weight=count or 1), to rounding. Time: about two V × V products for each head;
    memory: a block of scores for each thread. Kamoda et al. 2025, §4.2, Fig. 2D. Raises
    `CorpusError` when counts and vectors have different vocabularies, `TokenError` for ids outside
    it.
    """
    require(neighbours, Neighbours, "neighbours")
    return head_aurocs(vectors, [neighbours], query_ids, key_ids)[0]


def head_aurocs(
    vectors: TokenVectors,
    several: Sequence[Neighbours],
    query_ids: Sequence[int] | np.ndarray | None = None,
    key_ids: Sequence[int] | np.ndarray | None = None,
) -> list[HeadAuroc]:
    """`head_auroc` against several tables of neighbours, whose scores are made once for all.

    Arguments and errors as those of `head_auroc`; `CorpusError` for a table of another vocabulary.
    """
    require(vectors, TokenVectors, "vectors")
    vocab = vectors.vocab_size
    for neighbours in several:
        if neighbours.vocab_size != vocab:
            raise CorpusError(
                f"the counts are over {neighbours.vocab_size} tokens but the model has {vocab}; "
                "count the corpus with its own tokenizer."
            )
    if query_ids is None and vectors.tokens is not None:
        query_ids = vectors.tokens.numpy()
    queries = _ids(query_ids, vocab, "query token")
    chosen_keys = None
    if key_ids is not None:
        ids = _ids(key_ids, vocab, "key token")
        chosen_keys = torch.from_numpy(ids)
        several = [neighbours.among(ids) for neighbours in several]
    queries = queries[sum(neighbours.n_distinct[queries] for neighbours in several) > 0]
    values = np.full((len(several), vectors.n_heads, vocab), np.nan)
    rows = vectors.n_heads * len(queries)
    with progress_bar(total=rows, what="AUROC", unit=" rows") as bar:
        for head in range(vectors.n_heads if rows else 0):
            keys = vectors.keys_of(head)
            if chosen_keys is not None:
                keys = keys[chosen_keys]

            def visit(begin: int, scores: np.ndarray, head: int = head) -> None:
                ids = queries[begin : begin + len(scores)]
                for table, neighbours in enumerate(several):
                    values[table, head, ids] = aurocs_of_rows(
                        scores, ids, neighbours.indptr, neighbours.tokens, neighbours.counts
                    )
                bar.update(len(scores))

            query_vectors = vectors.queries_of(head, torch.from_numpy(queries))
            for_each_score_block(visit, query_vectors, keys)
    return [HeadAuroc(table) for table in values]


def wrong_queries(
    vectors: TokenVectors, neighbours: Neighbours, ids: np.ndarray, draws: int = 20, seed: int = 0
) -> Float[np.ndarray, "head query"]:
    """AUROC for the neighbours of each query token, but by the scores of others: a baseline.

    ids: [query], ascending, of tokens with neighbours, which are permuted in each of the draws.
    Raises `ResultError` for no draw.
    """
    whole_number(draws, "draws", error=ResultError)
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(len(ids)) for _ in range(draws)])
    values = np.empty((vectors.n_heads, *orders.shape))
    for head in range(vectors.n_heads):

        def visit(begin: int, scores: np.ndarray, head: int = head) -> None:
            for draw, order in enumerate(orders[:, begin : begin + len(scores)]):
                values[head, draw, order] = aurocs_of_rows(
                    scores, ids[order], neighbours.indptr, neighbours.tokens, neighbours.counts
                )

        query_vectors = vectors.queries_of(head, torch.from_numpy(ids))
        for_each_score_block(visit, query_vectors, vectors.keys_of(head))
    return values.mean(axis=1)


def _ids(ids: Sequence[int] | np.ndarray | None, vocab: int, what: str) -> Int[np.ndarray, "id"]:
    """Token ids, ascending and each once; all of them for None."""
    if ids is None:
        return np.arange(vocab)
    return np.unique(whole_ids(ids, vocab, what)) if len(ids) else np.empty(0, np.int64)


def frequency_vectors(unigrams: Int[np.ndarray, "vocab"]) -> TokenVectors:
    """A 'head' that scores every key by the rank of its count, whatever the query: a baseline."""
    keys = torch.from_numpy(rankdata(unigrams))[None, :, None]
    return TokenVectors(torch.ones_like(keys), keys)
