"""AUROC of continuation pieces beside that of words, each class with baselines of its own.

A mean AUROC over all query tokens can be had by liking keys that are frequent, or that can stand
before a query of this *kind* at all. So for each class::

    frequency    the key's unigram count in place of T^ee
    wrong query  T^ee of another query of the same class
    right keys   only keys that stand before some query of the class take part

What is left, AUROC minus wrong query among the right keys, is about *this* query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.affinity.auroc import HeadAuroc, Neighbours, frequency_vectors, head_auroc
from lnattn.affinity.subwords import TokenClasses, check_vocabularies, cycle
from lnattn.attention.vectors import TokenVectors
from lnattn.errors import CorpusError
from lnattn.inputs import one_of, require, whole_number
from lnattn.text.counts import Counts

CLASSES = ("continuation", "word")
KEYS = ("all keys", "right keys")
MEASURES = ("auroc", "wrong query", "query-specific")
_VALUES = ("mean", "low", "high")


@dataclass(frozen=True, eq=False)
class ClassAuroc:
    """Mean AUROC of every head for each class of queries. Made by `class_auroc`.

    heads: [class keys measure head value], frequency: [class keys value], in the order of
    `CLASSES`, `KEYS` and `MEASURES`; the values are mean and 95 % bootstrap limits over query
    tokens; 'query-specific' is AUROC minus wrong query. queries, right_keys: [class], how many
    there are.
    """

    heads: Float[np.ndarray, "2 2 3 head 3"]
    frequency: Float[np.ndarray, "2 2 3"]
    queries: Int[np.ndarray, "2"]
    right_keys: Int[np.ndarray, "2"]

    def table(self) -> pd.DataFrame:
        """One row for each class, choice of keys, measure and head; mean, low and high."""
        names = ["queries", "keys", "measure", "head"]
        places = [CLASSES, KEYS, MEASURES, range(self.heads.shape[3])]
        index = pd.MultiIndex.from_product(places, names=names)
        values = self.heads.reshape(-1, 3)
        return pd.DataFrame(values, index=index, columns=list(_VALUES)).reset_index()

    def query_specific_auroc(self, queries: str) -> Float[np.ndarray, "head 3"]:
        """What each head knows about the single query of a class, among the right keys."""
        one_of(queries, CLASSES, "queries")
        return self.heads[CLASSES.index(queries), 1, MEASURES.index("query-specific")]


def class_auroc(
    vectors: TokenVectors,
    counts: Counts,
    classes: TokenClasses,
    *,
    queries: int = 1000,
    draws: int = 1000,
    seed: int = 0,
) -> ClassAuroc:
    """AUROC by class over at most `queries` query tokens of each class, drawn at random.

    Raises `CorpusError` where counts hold fewer than two query tokens of a class, or are of
    another vocabulary than the classes; `ShapeError` for a number of queries below 2.
    """
    require(vectors, TokenVectors, "vectors")
    whole_number(queries, "queries", least=2)
    check_vocabularies(counts.vocab_size, len(classes.word))
    before = Neighbours.before(counts.bigrams)
    frequency = frequency_vectors(counts.unigrams)
    heads = np.empty((2, 2, 3, vectors.n_heads, 3))
    of_frequency = np.empty((2, 2, 3))
    n_queries = np.empty(2, dtype=np.int64)
    n_right_keys = np.empty(2, dtype=np.int64)

    def summary(auroc: HeadAuroc) -> Float[np.ndarray, "head 3"]:
        return np.column_stack([auroc.mean(), auroc.interval(draws=draws, seed=seed)])

    for i, name in enumerate(CLASSES):
        members = np.flatnonzero(getattr(classes, name) & (before.n_distinct > 0))
        if len(members) < 2:
            raise CorpusError(f"the counts hold {len(members)} {name} tokens with a predecessor.")
        right = np.flatnonzero(counts.by_next[:, members].sum(axis=1))
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.choice(members, min(queries, len(members)), replace=False))
        # These query tokens change places in one random cycle.
        tokens = torch.from_numpy(drawn)
        sent = tokens[torch.from_numpy(cycle(len(drawn), rng))]
        moved = torch.stack([vectors.queries_of(head, sent) for head in range(vectors.n_heads)])
        wrong = TokenVectors(moved, vectors.keys, tokens)
        n_queries[i] = len(drawn)
        n_right_keys[i] = len(right)
        for k, keys in enumerate((None, right)):
            auroc = head_auroc(vectors, before, drawn, keys)
            of_wrong_query = head_auroc(wrong, before, drawn, keys)
            specific = HeadAuroc(auroc.values - of_wrong_query.values)
            heads[i, k] = [summary(measure) for measure in (auroc, of_wrong_query, specific)]
            of_frequency[i, k] = summary(head_auroc(frequency, before, drawn, keys))[0]
    return ClassAuroc(
        heads=heads, frequency=of_frequency, queries=n_queries, right_keys=n_right_keys
    )
