"""Chapter 12's numbers of one rotary model, computed in one go and frozen as one result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int

from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.by_distance import (
    DistanceGrid,
    curve_over_distance,
    distance_grid,
    sample_queries,
    vectors_at_distance,
)
from lnattn.attention.vectors import TokenVectors, ranks
from lnattn.errors import CorpusError, ResultError
from lnattn.inputs import require
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn.rotary.position import CONTEXT, ByDistance, by_distance, permuted_heads, self_assertion
from lnattn.rotary.terms import DISTANCE_TERMS, distance_divergences
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.stats import spearman
from lnattn.storage import Result, provenance
from lnattn.text.counts import Counts
from lnattn_book.studies.table1 import token_of

#: Query tokens whose AUROC is taken.
QUERIES = 2000
#: Curves of pairs go over so many distances.
FAR = 33
#: The arrays of `ByDistance` by the names that a frozen study gives them.
_OF_DISTANCE = ("curve", "null_curve", "share", "spread", "constant", "null_share", "sinks")

#: Common names; a model is asked about those whose two words are tokens of its own.
NAMES = (
    ("Michael", "Jackson"), ("New", "York"), ("Michelle", "Obama"), ("Los", "Angeles"),
    ("San", "Francisco"), ("United", "States"), ("Prime", "Minister"), ("Hong", "Kong"),
    ("Great", "Britain"), ("North", "Korea"), ("Soviet", "Union"), ("Civil", "War"),
    ("Supreme", "Court"), ("Nobel", "Prize"), ("Las", "Vegas"), ("Saudi", "Arabia"),
    ("Puerto", "Rico"), ("high", "school"), ("video", "game"), ("years", "old"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RotaryStudy(Result):
    """What chapter 12 says of one model. Made by `rotary_study`.

    by_distance: curves and shares of what a head does by distance alone. queries, own, wrong: as in
    `DistanceGrid`, offsets and pairs 1, 2 and 3 apart. rho, asserted_low, asserted_high: Spearman
    of what keys assert with their counts, and its 95 % interval. divergence: mean nats. null_rho,
    null_divergence: the same for permuted heads. pairs: [pair 2], words of known names;
    pair_curves: [pair head distance], T^ee of the second word for the first as key, over the scale;
    pair_ranks, chance_ranks: [pair head], one token apart, of the pair and of a wrong query.
    """

    NAME: ClassVar[str] = "rotary"
    #: How far apart the pairs stand that are counted, and the offsets of queries.
    COUNTED: ClassVar[tuple[int, ...]] = (1, 2, 3)

    by_distance: ByDistance
    queries: np.ndarray
    own: np.ndarray
    wrong: np.ndarray
    rho: Float[np.ndarray, "head"]
    asserted_low: Float[np.ndarray, "head"]
    asserted_high: Float[np.ndarray, "head"]
    divergence: Float[np.ndarray, "term head"]
    null_rho: Float[np.ndarray, "null head"]
    null_divergence: Float[np.ndarray, "null term"]
    pairs: np.ndarray
    pair_curves: np.ndarray
    pair_ranks: np.ndarray
    chance_ranks: np.ndarray
    record: Mapping[str, Any]

    @property
    def n_heads(self) -> int:
        """How many query heads there are."""
        return self.by_distance.n_heads

    @property
    def grid(self) -> DistanceGrid:
        """The AUROCs by offset and distance."""
        return DistanceGrid(
            offsets=self.COUNTED,
            counted=self.COUNTED,
            queries=self.queries,
            own=self.own,
            wrong=self.wrong,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays in one npz, those of `by_distance` under their own names."""
        separate = {"by_distance", "record"}
        names = [item.name for item in fields(self) if item.name not in separate]
        arrays = {name: getattr(self, name) for name in names}
        arrays |= {name: getattr(self.by_distance, name) for name in _OF_DISTANCE}
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> RotaryStudy:
        """The result from its arrays and its record."""
        by_distance = ByDistance(**{name: arrays[name] for name in _OF_DISTANCE if name in arrays})
        others = {name: array for name, array in arrays.items() if name not in _OF_DISTANCE}
        return cls(by_distance=by_distance, record=record, **others)


def rotary_study(
    model: RelativeFirstLayer,
    counts: Mapping[int, Counts],
    documents: Sequence[Sequence[int]],
    *,
    queries: int = QUERIES,
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
) -> RotaryStudy:
    """Everything chapter 12 shows of a model, from its weights, counts, and some texts.

    counts: of pairs 1, 2 and 3 tokens apart, in the model's own tokens; documents: token ids, of
    which the first 256 are read. source: what the record shall say about model and counts. Raises
    `ShapeError` for another kind of model, `CorpusError` for other counts or no document, and
    `ResultError` where the model knows no name of `NAMES`.
    """
    require(model, RelativeFirstLayer, "model")
    if set(counts) != set(RotaryStudy.COUNTED) or len(documents) == 0:
        raise CorpusError(
            f"the study needs counts of pairs {RotaryStudy.COUNTED} apart and one document or "
            f"more, not counts of {tuple(counts)} and {len(documents)} documents."
        )
    begun = time.perf_counter()
    folded = fold_relative(model.attention)
    embeddings = model.embeddings
    unigrams = counts[1].unigrams
    means = mean_vectors(folded, embeddings, torch.from_numpy(unigrams))
    sampled = sample_queries(unigrams, queries, seed).tolist()
    vectors = {
        offset: vectors_at_distance(folded, embeddings, offset, means, sampled)
        for offset in RotaryStudy.COUNTED
    }
    neighbours = {apart: Neighbours.before(of.bigrams) for apart, of in counts.items()}
    grid = distance_grid(vectors, neighbours, seed)
    rho, divergence = _frequency_and_removal(model, unigrams, documents)
    null_rho = []
    null_divergence = []
    for permuted in permuted_heads(model, seed):
        rho_of_null, divergence_of_null = _frequency_and_removal(permuted, unigrams, documents)
        null_rho.append(rho_of_null[0])
        null_divergence.append(divergence_of_null.mean(axis=1))
    words, ids = known_pairs(model)
    names = vectors_at_distance(folded, embeddings, 1, means, [query for query, _ in ids])
    pair_ranks, chance_ranks = rank_pairs(names, ids)
    curves = curve_over_distance(folded, embeddings, ids, range(FAR), means) / folded.scale
    return RotaryStudy(
        queries=grid.queries,
        own=grid.own.astype(np.float32),
        wrong=grid.wrong.astype(np.float32),
        by_distance=by_distance(model, unigrams, seed=seed),
        rho=rho[0],
        asserted_low=rho[1],
        asserted_high=rho[2],
        divergence=divergence,
        null_rho=np.stack(null_rho),
        null_divergence=np.stack(null_divergence),
        pairs=np.array(words),
        pair_curves=curves.numpy(),
        pair_ranks=pair_ranks,
        chance_ranks=chance_ranks,
        record=provenance(
            what="first layer of a rotary model: affinity by distance, distance alone, four terms",
            model=model.name,
            weights_sha256=model.provenance.get("weights_sha256"),
            positions=model.provenance.get("positions"),
            terms=list(DISTANCE_TERMS),
            tokens_counted=counts[1].tokens,
            pairs_sha256=counts[1].sha256,
            texts=len(documents),
            context=CONTEXT,
            nulls=len(null_rho),
            seed=seed,
            seconds=round(time.perf_counter() - begun, 1),
            **(source or {}),
        ),
    )


def _frequency_and_removal(
    model: RelativeFirstLayer, unigrams: np.ndarray, documents: Sequence[Sequence[int]]
) -> tuple[Float[np.ndarray, "3 head"], Float[np.ndarray, "term head"]]:
    """Spearman of what keys assert with their counts (rho, low, high), and mean divergences.

    The divergence of removing a term is averaged over all queries that have two keys or more.
    """
    folded = fold_relative(model.attention)
    embeddings = model.embeddings
    means = mean_vectors(folded, embeddings, torch.from_numpy(unigrams))
    tokens, asserted = self_assertion(folded, embeddings, unigrams, 1, min_count=10)
    correlations = [spearman(head, unigrams[tokens]) for head in asserted]
    first = int(folded.causal)
    rows = [
        distance_divergences(folded, embeddings, list(ids[:CONTEXT]), means)[..., first:]
        for ids in documents
    ]
    mean = np.concatenate(rows, axis=-1).mean(axis=-1, dtype=np.float64)
    intervals = np.array([(head.rho, head.low, head.high) for head in correlations])
    return intervals.T, mean


def known_pairs(
    model: AnyFirstLayer, names: Iterable[Sequence[str]] | None = None
) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
    """Names (`NAMES`) whose two words are single tokens: these words, and (query, key) ids.

    Raises `ResultError` where no name is left, as without a tokenizer.
    """
    words = []
    ids = []
    for first, second in NAMES if names is None else names:
        key = token_of(model.tokenizer, f"_{first}")
        query = token_of(model.tokenizer, f"_{second}")
        if key is not None and query is not None:
            words.append((first, second))
            ids.append((query, key))
    if not ids:
        raise ResultError(f"no known name consists of two tokens of {model.name}.")
    return words, ids


def rank_pairs(
    vectors: TokenVectors, pairs: Sequence[tuple[int, int]]
) -> tuple[Int[np.ndarray, "pair head"], Int[np.ndarray, "pair head"]]:
    """The rank of each pair's key for its query, and for the query of the pair before it."""
    queries, keys = zip(*pairs, strict=True)
    wrong = np.roll(queries, 1).tolist()
    own_ranks = ranks(vectors, queries, keys).numpy()
    wrong_ranks = ranks(vectors, wrong, keys).numpy()
    return own_ranks, wrong_ranks
