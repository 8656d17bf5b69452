"""What chapter 13 asks of one rotary model, computed in one go and frozen as one result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.folding import fold
from lnattn.attention.relative import mean_vectors
from lnattn.book.by_distance import CONTEXT, ByDistance, by_distance, heads_dealt_anew
from lnattn.book.small_models import by_position, later_half
from lnattn.book.trained_model import tokens_seen
from lnattn.errors import ResultError
from lnattn.relative import AnyFirstLayer, RelativeFirstLayer
from lnattn.storage import Result, provenance
from lnattn.studies.affinity.at_distance import curve_over_distance, vectors_at_distance
from lnattn.studies.affinity.auroc import Neighbours
from lnattn.studies.affinity.distances import (
    DistanceGrid,
    distance_grid,
    sample_queries,
    skill_difference,
)
from lnattn.studies.affinity.table1 import token_of
from lnattn.studies.affinity.vectors import TokenVectors, ranks, token_vectors
from lnattn.studies.contribution.study import contributions
from lnattn.studies.position.distance import self_assertion
from lnattn.studies.position.sigma import inverse_sigma_bands
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: Query tokens whose AUROC is taken; curves of pairs go to this distance.
_QUERIES, _FAR = 2000, 33

#: Common names; a model is asked about those whose two words are tokens of its own.
NAMES = (
    ("Michael", "Jackson"), ("New", "York"), ("Michelle", "Obama"), ("Los", "Angeles"),
    ("San", "Francisco"), ("United", "States"), ("Prime", "Minister"), ("Hong", "Kong"),
    ("Great", "Britain"), ("North", "Korea"), ("Soviet", "Union"), ("Civil", "War"),
    ("Supreme", "Court"), ("Nobel", "Prize"), ("Las", "Vegas"), ("Saudi", "Arabia"),
    ("Puerto", "Rico"), ("high", "school"), ("video", "game"), ("years", "old"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RotaryStudy(ByDistance, Result):
    """Chapter 13's numbers of one model. Made by `rotary_study`.

    queries, own, wrong: as in `DistanceGrid`, turns and pairs 1, 2 and 3 apart; rho, asserted_low,
    asserted_high: [head], Spearman of what keys assert with their counts, and its interval;
    divergence: [term head], mean nats; null_rho: [deal head] and null_divergence: [deal term], the
    mean over heads: the same for heads dealt anew; pairs: [pair 2], words
    of known names; pair_curves: [pair head distance], T^ee of the second word for the first as
    key, divided by the scale; pair_ranks, chance_ranks: [pair head], one token apart, of the pair
    and of a wrong query.
    """

    NAME: ClassVar[str] = "rotary"
    #: How far apart the pairs stand that are counted, and how far queries are turned.
    COUNTED: ClassVar[tuple[int, ...]] = (1, 2, 3)

    queries: np.ndarray
    own: np.ndarray
    wrong: np.ndarray
    rho: Float[np.ndarray, "head"]
    asserted_low: Float[np.ndarray, "head"]
    asserted_high: Float[np.ndarray, "head"]
    divergence: Float[np.ndarray, "term head"]
    null_rho: Float[np.ndarray, "deal head"]
    null_divergence: Float[np.ndarray, "deal term"]
    pairs: np.ndarray
    pair_curves: np.ndarray
    pair_ranks: np.ndarray
    chance_ranks: np.ndarray
    record: Mapping[str, Any]

    @property
    def grid(self) -> DistanceGrid:
        """The AUROCs by turn and distance."""
        return DistanceGrid(self.COUNTED, self.COUNTED, self.queries, self.own, self.wrong)


def rotary_study(
    model: RelativeFirstLayer,
    counts: Mapping[int, Counts],
    documents: Sequence[Sequence[int]],
    *,
    queries: int = _QUERIES,
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
) -> RotaryStudy:
    """Everything chapter 13 shows of a model, from its weights, counts, and some texts.

    counts: of pairs 1, 2 and 3 tokens apart, in the model's own tokens; documents: token ids, of
    which the first 256 are read. source: what the record shall say about model and counts.
    """
    begun = time.perf_counter()
    folded, embeddings = fold(model.attention), model.embeddings
    unigrams = counts[1].unigrams
    means = mean_vectors(folded, embeddings, torch.from_numpy(unigrams))
    asked = sample_queries(unigrams, queries, seed)
    turned = {
        d: vectors_at_distance(folded, embeddings, d, means, asked.tolist())
        for d in RotaryStudy.COUNTED
    }
    grid = distance_grid(
        turned, {d: Neighbours.before(one.bigrams) for d, one in counts.items()}, seed
    )
    asserted, moved = _asserted_and_moved(model, unigrams, documents)
    dealt = [_asserted_and_moved(one, unigrams, documents) for one in heads_dealt_anew(model, seed)]
    words, ids = known_pairs(model)
    asked_of, looked_for = zip(*ids, strict=True)
    of_pairs = vectors_at_distance(folded, embeddings, 1, means, asked_of)
    return RotaryStudy(
        queries=grid.queries,
        own=grid.own.astype(np.float32),
        wrong=grid.wrong.astype(np.float32),
        **vars(by_distance(model, unigrams, seed=seed)),
        rho=asserted[0],
        asserted_low=asserted[1],
        asserted_high=asserted[2],
        divergence=moved,
        null_rho=np.stack([rho for (rho, _, _), _ in dealt]),
        null_divergence=np.stack([one.mean(axis=1) for _, one in dealt]),
        pairs=np.array(words),
        pair_curves=(
            curve_over_distance(folded, embeddings, ids, range(_FAR), means) / folded.scale
        ).numpy(),
        pair_ranks=ranks(of_pairs, asked_of, looked_for).numpy(),
        chance_ranks=ranks(of_pairs, np.roll(asked_of, 1).tolist(), looked_for).numpy(),
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
            deals=len(dealt),
            seed=seed,
            seconds=round(time.perf_counter() - begun, 1),
            **(source or {}),
        ),
    )


def _asserted_and_moved(
    model: RelativeFirstLayer, unigrams: np.ndarray, documents: Sequence[Sequence[int]]
) -> tuple[Float[np.ndarray, "3 head"], Float[np.ndarray, "term head"]]:
    """Spearman of what keys assert with their counts (rho, low, high), and mean divergences."""
    folded, embeddings = fold(model.attention), model.embeddings
    means = mean_vectors(folded, embeddings, torch.from_numpy(unigrams))
    asserted = self_assertion(folded, embeddings, unigrams, 1, min_count=10)
    moved = contributions(
        folded, embeddings, documents, constants=means, context=CONTEXT, workers=1
    )
    of_heads = [(one.rho, one.low, one.high) for one in asserted.correlations]
    return np.array(of_heads).T, moved.grand_mean()[:, :-1]


def known_pairs(
    model: AnyFirstLayer, names: Iterable[Sequence[str]] | None = None
) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
    """Names whose two words are single tokens: (first, second) words, and (query, key) ids."""
    words, ids = [], []
    for first, second in NAMES if names is None else names:
        key, query = (token_of(model.tokenizer, f"_{word}") for word in (first, second))
        if key is not None and query is not None:
            words.append((first, second))
            ids.append((query, key))
    if not ids:
        raise ResultError(f"no known name consists of two tokens of {model.name}.")
    return words, ids


@dataclass(frozen=True, eq=False)
class Twin:
    """A model with learned positions, asked what the study of a rotary one asked (`twin_of`).

    grid: AUROCs of the same query tokens against the same pairs; pair_ranks, chance_ranks: as in
    `RotaryStudy`; attention, rotary_attention: [distance head], by position or distance alone, of
    this model and of the rotary one, for the queries of the later half of a context.
    """

    grid: DistanceGrid
    pair_ranks: Int[np.ndarray, "pair head"]
    chance_ranks: Int[np.ndarray, "pair head"]
    attention: Float[np.ndarray, "distance head"]
    rotary_attention: Float[np.ndarray, "distance rotary_head"]

    def difference(self, study: RotaryStudy, seed: int = 0) -> Float[np.ndarray, "3"]:
        """Skill of the rotary model's best head less that of this one's (D5): mean, low, high."""
        return skill_difference(study.grid, self.grid, seed=seed)


def twin_of(
    study: RotaryStudy, model: FirstLayer, counts: Counts, far: int = _FAR, seed: int = 0
) -> Twin:
    """The same questions to a model with learned positions that was trained on the same tokens.

    far: how many of the nearest distances the attention is stated for, at most; counts: those of
    neighbours that the study was made with. Raises `ResultError` where they are others, or of other
    tokens than the model's.
    """
    if counts.vocab_size != model.embeddings.vocab_size:
        raise ResultError(f"the counts are not over the tokens of {model.name}.")
    if study.record.get("pairs_sha256") != counts.sha256:
        raise ResultError(
            f"the study of {study.record['model']} was made with other counts than those of "
            f"{model.name}: the two do not read the same tokens."
        )
    folded, W_P = fold(model.attention), model.embeddings.W_P
    every = token_vectors(folded, model.embeddings)
    tokens = torch.from_numpy(study.queries)
    some = TokenVectors(every.queries[:, tokens], every.keys, tokens)
    _, ids = known_pairs(model, study.pairs.tolist())
    queries, keys = zip(*ids, strict=True)
    half = later_half(min(study.record["context"], len(W_P)))
    far = min(far, int(half[0]) + 1)  # as far as the first of these queries can look
    curve = torch.from_numpy(study.curve)
    alone = [curve[:, : i + 1].softmax(dim=1)[:, :far] for i in half.tolist()]
    sigma = inverse_sigma_bands(model.embeddings, folded.eps)
    return Twin(
        distance_grid({1: some}, {1: Neighbours.before(counts.bigrams)}, seed),
        ranks(every, queries, keys).numpy(),
        ranks(every, np.roll(queries, 1).tolist(), keys).numpy(),
        by_position(folded, W_P, sigma, far),
        torch.stack(alone).mean(dim=0).T.numpy(),
    )


def names_side_by_side(study: RotaryStudy, twin: Twin) -> pd.DataFrame:
    """The rank of a name's first word in the best head, for both models and for wrong pairs."""
    columns = {
        "rotary": study.pair_ranks,
        "rotary, wrong pair": study.chance_ranks,
        "learned": twin.pair_ranks,
        "learned, wrong pair": twin.chance_ranks,
    }
    names = [f"{first} {second}" for first, second in study.pairs]
    best = {name: found.min(axis=1) for name, found in columns.items()}
    return pd.DataFrame(best, index=names).rename_axis("name")


def side_by_side(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What models were made of and how well they predict, by their training records."""
    rows = {
        record["name"]: {
            "layers, width, heads": "{layers}, {d_model}, {heads}".format(**record["plan"]),
            "tokens of training": f"{tokens_seen(record):,}",
            "seed": record["plan"]["seed"],
            "held-out loss": f"{record['held_out_loss']:.3f}",
            "Kneser–Ney bigrams": f"{record['baselines']['bigram_kneser_ney']:.3f}",
        }
        for record in records
    }
    return pd.DataFrame(rows).rename_axis("losses in nats per token")


def not_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What two trainings differ in besides the architecture, in words; empty where in nothing."""
    plans = [{**one["plan"], "corpus": one["corpus"]}, {**other["plan"], "corpus": other["corpus"]}]
    ignored = {"architecture", "patience", "evaluate_every"}
    names = sorted((plans[0].keys() | plans[1].keys()) - ignored)
    return [
        name if name == "corpus" else f"{name} ({plans[0].get(name)} and {plans[1].get(name)})"
        for name in names
        if plans[0].get(name) != plans[1].get(name)
    ]
