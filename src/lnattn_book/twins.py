"""The book's two twins side by side: rotary positions against learned ones (chapter 13)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.vectors import TokenVectors, token_vectors
from lnattn.attention.folding import fold
from lnattn.errors import CheckpointError, ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.choice import rotary_models
from lnattn.rotary.affinity import DistanceGrid, distance_grid
from lnattn.rotary.study import RotaryStudy
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer


def available_rotary_models() -> list[RelativeFirstLayer]:
    """The first layers of `rotary_models` that can be read; the explorer says what others lack."""
    found = []
    for name in rotary_models():
        with suppress(CheckpointError):
            if isinstance(model := load_first_layer(name), RelativeFirstLayer):
                found.append(model)
    return found


def twin_of(study: RotaryStudy, model: FirstLayer, counts: Counts, seed: int = 0) -> DistanceGrid:
    """AUROCs of the same query tokens in a model with learned positions, trained on the same text.

    counts: those of neighbours that the study was made with. Raises `ResultError` where they are
    others, or of other tokens than the model's.
    """
    if counts.vocab_size != model.embeddings.vocab_size:
        raise ResultError(f"the counts are not over the tokens of {model.name}.")
    if study.record.get("pairs_sha256") != counts.sha256:
        raise ResultError(
            f"the study of {study.record['model']} was made with other counts than those of "
            f"{model.name}: the two do not read the same tokens."
        )
    every = token_vectors(fold(model.attention), model.embeddings)
    tokens = torch.from_numpy(study.queries)
    some = TokenVectors(every.queries[:, tokens], every.keys, tokens)
    return distance_grid({1: some}, {1: Neighbours.before(counts.bigrams)}, seed)


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
