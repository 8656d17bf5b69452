"""The book's two twins side by side: rotary positions against learned ones (chapter 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from lnattn.affinity.auroc import Neighbours
from lnattn.affinity.vectors import TokenVectors, token_vectors
from lnattn.attention.folding import fold
from lnattn.errors import CheckpointError, HubError, ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.choice import rotary_models
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.rotary.affinity import DistanceGrid, best_head_difference, distance_grid
from lnattn.rotary.study import FAR, RotaryStudy, known_pairs, rank_pairs
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer
from lnattn_book.claims.verdicts import listed_words
from lnattn_book.small_models import by_position, later_half
from lnattn_book.trained_model import tokens_seen


def available_rotary_models() -> tuple[list[RelativeFirstLayer], list[str]]:
    """The first layers of `rotary_models` that can be read, and in words why others cannot."""
    found, missing, absent = [], [], []
    for name in rotary_models():
        try:
            model = load_first_layer(name)
        except HubError:
            missing.append(name)
        except CheckpointError as error:
            absent.append(str(error).rstrip("."))
        else:
            if isinstance(model, RelativeFirstLayer):
                found.append(model)
            else:
                absent.append(f"{name} adds its positions to its input")
    if missing:
        absent.insert(0, f"neither the cache nor a network had {listed_words(missing)}")
    return found, absent


@dataclass(frozen=True, eq=False)
class Twin:
    """A model with learned positions, measured as the study of a rotary one measures (`twin_of`).

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
        """AUROC of the rotary model's best head less that of this one's (D5): mean, low, high."""
        return best_head_difference(study.grid, self.grid, seed=seed)


def twin_of(
    study: RotaryStudy, model: FirstLayer, counts: Counts, far: int = FAR, seed: int = 0
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
    half = later_half(min(study.record["context"], len(W_P)))
    far = min(far, int(half[0]) + 1)  # as far as the first of these queries can look
    curve = torch.from_numpy(study.curve)
    alone = [curve[:, : i + 1].softmax(dim=1)[:, :far] for i in half.tolist()]
    sigma = inverse_sigma_bands(model.embeddings, folded.eps)
    own, wrong = rank_pairs(every, ids)
    return Twin(
        distance_grid({1: some}, {1: Neighbours.before(counts.bigrams)}, seed),
        own,
        wrong,
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
