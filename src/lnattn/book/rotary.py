"""What chapter 13 asks of one rotary model, computed in one go and frozen as one result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.folding import fold
from lnattn.attention.relative import mean_vectors
from lnattn.book.samples import sample_tokens
from lnattn.claims.survey import dealt_anew
from lnattn.errors import ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.relative import RelativeFirstLayer
from lnattn.storage import Result, provenance, sha256_of_file
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
from lnattn.studies.position.distance import distance_bias, self_assertion
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer

#: The distances that curves go over, and the longest text.
CONTEXT = 256
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
class RotaryStudy(Result):
    """Chapter 13's numbers of one model. Made by `rotary_study`.

    queries, own, wrong: as in `DistanceGrid`, turns and pairs 1, 2 and 3 apart; curve, null_curve:
    [head distance], the term d divided by the scale, in the model and with its weights dealt anew;
    share: [term head], of the variance of scores; spread: [head], their standard deviation,
    divided by the scale; rho, asserted_low, asserted_high: [head], Spearman of what keys assert
    with their counts, and its interval; divergence: [term head], mean nats; pairs: [pair 2], words
    of known names; pair_curves: [pair head distance], T^ee of the second word for the first as
    key, divided by the scale; pair_ranks, chance_ranks: [pair head], one token apart, of the pair
    and of a wrong query.
    """

    NAME: ClassVar[str] = "rotary"

    queries: np.ndarray
    own: np.ndarray
    wrong: np.ndarray
    curve: Float[np.ndarray, "head distance"]
    null_curve: Float[np.ndarray, "head distance"]
    share: Float[np.ndarray, "term head"]
    spread: Float[np.ndarray, "head"]
    rho: Float[np.ndarray, "head"]
    asserted_low: Float[np.ndarray, "head"]
    asserted_high: Float[np.ndarray, "head"]
    divergence: Float[np.ndarray, "term head"]
    pairs: np.ndarray
    pair_curves: np.ndarray
    pair_ranks: np.ndarray
    chance_ranks: np.ndarray
    record: Mapping[str, Any]

    @property
    def n_heads(self) -> int:
        return len(self.curve)

    @property
    def grid(self) -> DistanceGrid:
        """The AUROCs by turn and distance."""
        return DistanceGrid((1, 2, 3), (1, 2, 3), self.queries, self.own, self.wrong)

    def near_share(self, near: int, null: bool = False) -> Float[np.ndarray, "head"]:
        """Attention by the last term alone on the nearest keys, over all distances."""
        curve = self.null_curve if null else self.curve
        return torch.from_numpy(curve).softmax(dim=-1)[:, :near].sum(dim=-1).numpy()


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
        d: vectors_at_distance(folded, embeddings, d, means, asked.tolist()) for d in (1, 2, 3)
    }
    grid = distance_grid(turned, {d: Neighbours.before(counts[d].bigrams) for d in (1, 2, 3)}, seed)
    alone = distance_bias(folded, embeddings, unigrams, range(CONTEXT))
    null = dealt_anew(model, seed)
    null_alone = distance_bias(fold(null.attention), null.embeddings, unigrams, range(CONTEXT))
    asserted = self_assertion(folded, embeddings, unigrams, 1, min_count=10)
    moved = contributions(
        folded, embeddings, documents, constants=means, context=CONTEXT, workers=1
    )
    words, ids = _known_pairs(model)
    of_pairs = vectors_at_distance(folded, embeddings, 1, means, [b for b, _ in ids])
    others = np.roll([b for b, _ in ids], 1).tolist()
    return RotaryStudy(
        queries=grid.queries,
        own=grid.own.astype(np.float32),
        wrong=grid.wrong.astype(np.float32),
        curve=alone.curve / alone.scale,
        null_curve=null_alone.curve / null_alone.scale,
        share=alone.share,
        spread=np.sqrt(alone.variance.sum(axis=0)) / alone.scale,
        rho=np.array([one.rho for one in asserted.correlations]),
        asserted_low=np.array([one.low for one in asserted.correlations]),
        asserted_high=np.array([one.high for one in asserted.correlations]),
        divergence=moved.grand_mean()[:, :-1],
        pairs=np.array(words),
        pair_curves=(
            curve_over_distance(folded, embeddings, ids, range(_FAR), means) / folded.scale
        ).numpy(),
        pair_ranks=ranks(of_pairs, *zip(*ids, strict=True)).numpy(),
        chance_ranks=ranks(of_pairs, others, [a for _, a in ids]).numpy(),
        record=provenance(
            what="first layer of a rotary model: affinity by distance, distance alone, four terms",
            model=model.name,
            weights_sha256=model.provenance.get("weights_sha256"),
            positions=model.provenance.get("positions"),
            terms=list(DISTANCE_TERMS),
            tokens_counted=counts[1].tokens,
            texts=len(documents),
            context=CONTEXT,
            seed=seed,
            seconds=round(time.perf_counter() - begun, 1),
            **(source or {}),
        ),
    )


def _known_pairs(model: RelativeFirstLayer) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
    """Names whose two words are single tokens: (first, second) words, and (query, key) ids."""
    words, ids = [], []
    for first, second in NAMES:
        key, query = (token_of(model.tokenizer, f"_{word}") for word in (first, second))
        if key is not None and query is not None:
            words.append((first, second))
            ids.append((query, key))
    if not ids:
        raise ResultError(f"no known name consists of two tokens of {model.name}.")
    return words, ids


def difference_of_twins(
    study: RotaryStudy, model: FirstLayer, counts: Counts, seed: int = 0
) -> Float[np.ndarray, "3"]:
    """Skill of a rotary model less that of one with learned positions (claim D5): mean, low, high.

    Both models must share their tokens; `counts` are those that the study was made with.
    """
    if counts.vocab_size != model.embeddings.vocab_size:
        raise ResultError("the counts are not over the tokens of the two models; count again.")
    every = token_vectors(fold(model.attention), model.embeddings)
    tokens = torch.from_numpy(study.queries)
    some = TokenVectors(every.queries[:, tokens], every.keys, tokens)
    learned = distance_grid({1: some}, {1: Neighbours.before(counts.bigrams)}, seed)
    return skill_difference(study.grid, learned, seed=seed)


def main(arguments: Sequence[str] | None = None) -> Path:
    """Freeze the study of a model, from counts of pairs 1, 2 and 3 apart and the book's sample."""
    parser = argparse.ArgumentParser(prog="python -m lnattn.book.rotary", description=main.__doc__)
    parser.add_argument("model", help="a model's name, a hub id, or a folder")
    parser.add_argument("counts", nargs=3, help="files of `lnattn count` with --skip 1, 2 and 3")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    given = parser.parse_args(arguments)
    model = load_first_layer(given.model)
    counts = {skip: Counts.load(path) for skip, path in enumerate(given.counts, start=1)}
    source = {
        "revision": model.provenance.get("revision"),
        "counts_sha256": [sha256_of_file(path) for path in given.counts],
    }
    study = rotary_study(model, counts, sample_tokens(model), source=source)
    from lnattn.book.results import name_command  # which reads this study

    return name_command(study.write(given.out))


if __name__ == "__main__":
    print(main())
