"""The first layers of a training run, as it was at the steps whose weights were kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from experiments.book_model.plan import TrainingPlan
from lnattn.errors import CheckpointError
from lnattn.models.architectures import family_of
from lnattn.models.checkpoints import joined
from lnattn.models.files import LocalWeights
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.storage import read_json, sha256_of_file
from lnattn.text.tokenizers import load_tokenizer


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run's first layer after `step` optimiser steps, that is after `tokens` tokens."""

    step: int
    tokens: int
    model: AnyFirstLayer


def snapshots(folder: Path | str) -> Iterator[Snapshot]:
    """The snapshots of a training run, first to last, finished or not.

    The last one of a finished run is the model that it made. Raises `CheckpointError` where the
    folder holds none.
    """
    folder = Path(folder)
    files = sorted((folder / "checkpoint").glob("step-*.safetensors"))
    if not files:
        raise CheckpointError(
            f"{folder} holds no checkpoint/step-*.safetensors; give the folder of a training run."
        )
    tokenizer = load_tokenizer(folder)
    progress = read_json(folder / "checkpoint" / "progress.json")
    plan = TrainingPlan(**progress["plan"])
    with torch.device("meta"):  # its configuration is wanted, and no weights
        config = plan.new_model(tokenizer.eos_token_id).config.to_dict()
    kept = {int(file.stem.removeprefix("step-")): file for file in files}
    if (folder / "model.safetensors").is_file():
        kept[progress["step"]] = folder / "model.safetensors"
    for step, file in sorted(kept.items()):
        family = family_of(config, LocalWeights(f"{folder.name} at step {step}", (file,)))
        about = {
            "name": f"{folder.name} at step {step}",
            "weights_sha256": sha256_of_file(file),
        }
        model = joined(
            family,
            family.embeddings(),
            family.attention(0),
            layer=0,
            tokenizer=tokenizer,
            provenance=about,
        )
        yield Snapshot(step, step * plan.batch * plan.context, model)
