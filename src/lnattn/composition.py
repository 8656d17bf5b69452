"""Which heads of a model compose: scores of all pairs, against three yardsticks, frozen or live.

Elhage et al. 2021; Ferrando et al. 2024, §2.2.3. For raw weights and with the LayerNorm folded in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.circuits import Composition, Kind, model_composition
from lnattn.attention.folding import fold
from lnattn.attention.head_scores import previous_token_score
from lnattn.attention.nulls import random_baseline, rotation_z
from lnattn.errors import ResultError
from lnattn.inputs import real_number
from lnattn.models.choice import Choice
from lnattn.storage import Result, provenance
from lnattn.weights import AttentionLayer, FirstLayer, require_absolute


@dataclass(frozen=True, eq=False)
class CompositionStudy(Result):
    """Composition of all head pairs of one model.

    raw, folded: scores from the weights as stored, and with C diag(γ) folded in; pairs that the
    model cannot use are included. previous_token: from position terms alone, σ that of the position
    embedding.
    """

    NAME: ClassVar[str] = "composition"

    raw: Composition
    folded: Composition
    previous_token: Float[Tensor, "layer head"]
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.record.get("name", "unnamed model"))

    def arrays(self) -> dict[str, np.ndarray]:
        """What is frozen, by name."""
        arrays = {"previous_token": self.previous_token.numpy()}
        for convention, composition in (("raw", self.raw), ("folded", self.folded)):
            arrays[f"{convention}_scores"] = composition.scores.numpy()
            arrays[f"{convention}_write_spectrum"] = composition.write_spectrum.numpy()
            arrays[f"{convention}_read_spectrum"] = composition.read_spectrum.numpy()
        return arrays

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> CompositionStudy:
        """The result from its arrays and its record."""
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}

        def composition(convention: str) -> Composition:
            return Composition(
                scores=tensors[f"{convention}_scores"],
                write_spectrum=tensors[f"{convention}_write_spectrum"],
                read_spectrum=tensors[f"{convention}_read_spectrum"],
                d_model=int(record["d_model"]),
            )

        return cls(
            raw=composition("raw"),
            folded=composition("folded"),
            previous_token=tensors["previous_token"],
            record=record,
        )


def study_composition(
    layers: Sequence[AttentionLayer],
    W_P: Float[Tensor, "position d_model"],
    source: Mapping[str, Any],
) -> CompositionStudy:
    """Compute the study from a model's attention blocks and its position embeddings.

    layers: all of them, first to last; source: the weights' provenance (their name and sha256).
    Elhage et al. 2021; Ferrando et al. 2024, §2.2.3. Raises `ShapeError` for no layer, layers of
    several models, or fewer than two positions.
    """
    begin = time.perf_counter()
    folded = [fold(layer) for layer in layers]
    raw_scores = model_composition(layers, impossible=True)
    folded_scores = model_composition(folded, impossible=True)
    previous = torch.stack([previous_token_score(layer, W_P) for layer in folded])
    record = provenance(
        **source,
        study="Q-, K- and V-composition of all head pairs; previous-token scores from positions",
        layers=len(layers),
        heads=layers[0].n_heads,
        d_model=layers[0].d_model,
        seconds=round(time.perf_counter() - begin, 2),
    )
    return CompositionStudy(
        raw=raw_scores, folded=folded_scores, previous_token=previous, record=record
    )


def study_checkpoint(name_or_path: str | Path | Choice) -> CompositionStudy:
    """The study of a model by name; errors as of the loaders.

    The record names the files that were read.
    """
    from lnattn.models.checkpoints import load_attention_layers, load_first_layer

    first: FirstLayer = require_absolute(load_first_layer(name_or_path))
    facts = ("name", "source", "revision", "weights_sha256", "files", "metadata")
    source = {key: first.provenance[key] for key in facts if key in first.provenance}
    return study_composition(load_attention_layers(name_or_path), first.embeddings.W_P, source)


def pair_table(composition: Composition, kind: Kind) -> pd.DataFrame:
    """All computed pairs of one kind, one row each, largest score first.

    writer, reader: 'layer.head'; score; excess: score − 1/√d_model, the random-weights baseline; z:
    of the squared score under the random-rotation null; special: the score double centred within
    its two layers; impossible_share: share of the impossible pairs whose score is at least as high
    (NaN where none were computed); possible: whether the reader's layer comes after the writer's.
    """
    scores = composition.of(kind).double()
    layers, heads = scores.shape[:2]
    names = [f"{layer}.{head}" for layer in range(layers) for head in range(heads)]
    possible = composition.possible()
    table = pd.DataFrame(
        {
            "writer": np.repeat(names, len(names)),
            "reader": np.tile(names, len(names)),
            "score": scores.flatten().numpy(),
            "excess": (scores - random_baseline(composition.d_model)).flatten().numpy(),
            "z": rotation_z(composition, kind).double().flatten().numpy(),
            "special": double_centred(scores).flatten().numpy(),
            "impossible_share": _share_at_least(scores, scores[~possible]).flatten().numpy(),
            "possible": possible.flatten().numpy(),
        }
    )
    table = table.dropna(subset="score")
    return table.sort_values("score", ascending=False, ignore_index=True)


def double_centred(
    scores: Float[Tensor, "writer_layer writer_head reader_layer reader_head"],
) -> Float[Tensor, "writer_layer writer_head reader_layer reader_head"]:
    """Scores minus the writer's and the reader's mean plus the layer pair's mean.

    What is left is what the two heads of a pair have with each other, not with everybody.
    """
    writer = scores.mean(3, keepdim=True)
    reader = scores.mean(1, keepdim=True)
    return scores - writer - reader + scores.mean((1, 3), keepdim=True)


def exceedances(
    composition: Composition, share: float = 0.01
) -> Int[np.ndarray, "kind side layer_pair"]:
    """Of each two layers, how many of the highest scores are of which side.

    Sides: the later layer reads, or the earlier one, which no computation can use. Counted are the
    highest `share` of both together, one at least. Raises `ResultError` without impossible pairs,
    or for a share that is not above 0 and below 1.
    """
    real_number(share, "share", 0, 1, open_ends=True, error=ResultError)
    scores = composition.scores.double()
    counts = []
    for a, b in combinations(range(scores.shape[1]), 2):
        usable_and_impossible = torch.stack(
            [scores[:, a, :, b], scores[:, b, :, a]], dim=1
        ).flatten(2)
        if usable_and_impossible.isnan().any():
            raise ResultError("impossible pairs were not computed; model_composition can.")
        highest = max(1, round(share * usable_and_impossible[0].numel()))
        least = usable_and_impossible.flatten(1).topk(highest).values[:, -1]
        counts.append((usable_and_impossible >= least[:, None, None]).sum(dim=-1))
    return torch.stack(counts, dim=-1).numpy()


def _share_at_least(scores: Tensor, reference: Tensor) -> Tensor:
    """For each score, the share of `reference` values that are as high or higher."""
    reference = reference[~reference.isnan()].sort().values
    if len(reference) == 0:
        return torch.full_like(scores, torch.nan)
    below = torch.searchsorted(reference, scores.contiguous())
    share = 1 - below.to(scores.dtype) / len(reference)
    return torch.where(scores.isnan(), torch.nan, share)
