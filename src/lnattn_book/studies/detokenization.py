"""Which heads detokenize? The affinity study of one model, with what it must be compared with.

Kamoda et al. 2025, §4: the AUROC of every head against bigram counts, the same-token heat map, and
the strongest pairs. An AUROC alone says little, so five others stand beside it::

    shuffled     T^ee with the tokens permuted: chance
    wrong query  T^ee of other query tokens: what a head knows of keys that are popular anyway (what
                 it has beyond that is its *skill*)
    reversed     T^ee against count(b, a): does the head know which of the two comes first?
    frequency    the key's unigram count in place of T^ee: no attention at all
    cosine       the similarity of the two embeddings: no attention either
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.affinity.auroc import (
    HeadAuroc,
    Neighbours,
    frequency_vectors,
    head_auroc,
    head_aurocs,
    wrong_queries,
)
from lnattn.affinity.topk import strongest_pairs
from lnattn.attention.vectors import (
    TokenVectors,
    cosine_vectors,
    diagonal_z,
    heat_map,
    same_token_z,
)
from lnattn.errors import CorpusError
from lnattn.inputs import require, whole_number
from lnattn.stats import bootstrap_means
from lnattn.storage import Result, provenance
from lnattn.text.counts import Counts
from lnattn.weights import Embeddings

#: Baselines with one AUROC for each head, and those with one for all.
HEAD_BASELINES = ("shuffled", "wrong query", "reversed")
COMMON_BASELINES = ("frequency", "cosine")
#: Of how many query tokens the skill is taken, at most: each is asked with many wrong queries.
SKILL_QUERIES = 8192


@dataclass(frozen=True, eq=False)
class AffinityResult(Result):
    """The affinity study of one model. Made by `detokenization`.

    auroc: float32 [head vocab], NaN where undefined or not asked for; interval: [head 2], 95 %
    bootstrap interval of its mean over query tokens; skill: [head 3], mean, low and high of AUROC
    less that with wrong queries, over `SKILL_QUERIES`; head_baselines: [baseline head], means, in
    the order of `HEAD_BASELINES`; common_baselines: [baseline], likewise.
    heat_tokens: [n], tokens drawn at random; heat: [head n n], their T^ee.
    same_token: float32 [head vocab], z-score of T^ee_{v,v} in its row over the whole vocabulary.
    pair_queries, pair_keys, pair_scores: [head rank], strongest pairs of two different tokens.
    record: provenance.
    """

    NAME: ClassVar[str] = "detokenization"

    auroc: Float[np.ndarray, "head vocab"]
    interval: Float[np.ndarray, "head 2"]
    skill: Float[np.ndarray, "head 3"]
    head_baselines: Float[np.ndarray, "baseline head"]
    common_baselines: Float[np.ndarray, "common"]
    heat_tokens: Int[np.ndarray, "n"]
    heat: Float[np.ndarray, "head n n"]
    same_token: Float[np.ndarray, "head vocab"]
    pair_queries: Int[np.ndarray, "head rank"]
    pair_keys: Int[np.ndarray, "head rank"]
    pair_scores: Float[np.ndarray, "head rank"]
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return len(self.auroc)

    @property
    def share_defined(self) -> float:
        """Of the query tokens that were asked, the share that has an AUROC: a bigram at least."""
        sampled = self.record.get("queries", self.auroc.shape[1])
        return float(np.isfinite(self.auroc[0]).sum() / sampled)

    def mean_auroc(self) -> Float[np.ndarray, "head"]:
        """Mean over the query tokens that have an AUROC, in double precision."""
        return HeadAuroc(self.auroc.astype(np.float64)).mean()

    def diagonal_z(self) -> Float[np.ndarray, "head"]:
        """Mean z-score of the heat map's diagonal, for every head."""
        return diagonal_z(torch.from_numpy(self.heat)).numpy()

    def table(self) -> pd.DataFrame:
        """One row a head: AUROC with its interval, the authors' average, baselines, z-scores."""
        mean = self.mean_auroc()
        columns = {
            "auroc": mean,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            "auroc with zeros": mean * self.share_defined,
            **dict(zip(HEAD_BASELINES, self.head_baselines, strict=True)),
            "diagonal z": self.diagonal_z(),
            "same-token z": self.same_token.mean(axis=1),
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(self.n_heads, name="head"))


def detokenization(  # noqa: PLR0913 (a study: its settings by name)
    vectors: TokenVectors,
    embeddings: Embeddings,
    counts: Counts,
    *,
    queries: int | None = None,
    heat_tokens: int = 100,
    pairs: int = 20,
    draws: int = 1000,
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
) -> AffinityResult:
    """The whole affinity study of a model's first layer: about three V × V products per head.

    vectors: of all its tokens; embeddings: for the baseline of cosines; counts: of a corpus in its
    own tokens. queries: how many random query tokens have an AUROC (default: all). draws: bootstrap
    samples. source: what the record shall say about model and counts. The same `seed` gives the
    same result. Kamoda et al. 2025, §4. Raises `CorpusError` where the vocabularies of counts and
    model differ, or fewer tokens occur than are drawn; `ShapeError` for a number below 1.
    """
    require(vectors, TokenVectors, "vectors")
    vocab = vectors.vocab_size
    if counts.vocab_size != vocab:
        raise CorpusError(
            f"the counts are over {counts.vocab_size} tokens but the model has {vocab}; count the "
            "corpus with the model's own tokenizer."
        )
    before = Neighbours.before(counts.bigrams)
    after = Neighbours.after(counts.bigrams)
    sampled = None
    if queries is not None:
        whole_number(queries, "queries")
        sampled = np.random.default_rng(seed).choice(vocab, min(queries, vocab), replace=False)
    auroc, reverse = head_aurocs(vectors, [before, after], sampled)
    skill_queries = np.random.default_rng(seed).permutation(np.flatnonzero(auroc.defined))
    skill_queries = np.sort(skill_queries[:SKILL_QUERIES])
    wrong = wrong_queries(vectors, before, skill_queries, seed=seed)
    shuffled = head_auroc(vectors.shuffled(seed), before, sampled)
    head_baselines = {
        "shuffled": shuffled.mean(),
        "wrong query": wrong.mean(axis=1),
        "reversed": reverse.mean(),
    }
    common = {
        "frequency": head_auroc(frequency_vectors(counts.unigrams), before, sampled),
        "cosine": head_auroc(cosine_vectors(embeddings), before, sampled),
    }
    drawn = _draw_tokens(counts.unigrams, heat_tokens, seed)
    best = strongest_pairs(vectors, pairs)
    return AffinityResult(
        auroc=auroc.values.astype(np.float32),
        interval=auroc.interval(draws=draws, seed=seed),
        skill=bootstrap_means(auroc.values[:, skill_queries] - wrong, draws=draws, seed=seed),
        head_baselines=np.stack([head_baselines[name] for name in HEAD_BASELINES]),
        common_baselines=np.array([common[name].mean()[0] for name in COMMON_BASELINES]),
        heat_tokens=drawn,
        heat=heat_map(vectors, torch.from_numpy(drawn)).numpy().astype(np.float32),
        same_token=same_token_z(vectors).numpy().astype(np.float32),
        pair_queries=best.queries,
        pair_keys=best.keys,
        pair_scores=best.scores,
        record=provenance(
            what="affinity study: T^ee, its AUROC against bigrams, and baselines",
            query_tokens=int(auroc.defined.sum()),
            queries=vocab if sampled is None else len(sampled),
            bigrams={"distinct": len(before.tokens), "all": int(before.counts.sum())},
            seed=seed,
            bootstrap_draws=draws,
            **(source or {}),
        ),
    )


def _draw_tokens(unigrams: np.ndarray, n: int, seed: int) -> np.ndarray:
    """n different tokens at random among those that occur: unused rows were never trained."""
    whole_number(n, "heat_tokens", least=3)
    occurring = np.flatnonzero(unigrams)
    if len(occurring) < n:
        raise CorpusError(f"only {len(occurring)} tokens occur in the counts, too few to draw {n}.")
    return np.sort(np.random.default_rng(seed).choice(occurring, size=n, replace=False))
