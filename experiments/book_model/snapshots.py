"""The first layers of a training run, as it was at the steps whose weights were kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from experiments.book_model.forward import rotary_tables
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.state import load_weights
from lnattn.errors import CheckpointError
from lnattn.models.architectures import family_of
from lnattn.models.checkpoints import make_first_layer
from lnattn.models.files import LocalWeights
from lnattn.rotary.weights import (
    AnyFirstLayer,
    RelativeAttention,
    RelativeFirstLayer,
    Rotation,
    TokenEmbeddings,
)
from lnattn.storage import read_json, sha256_of_file
from lnattn.text.tokenizers import load_tokenizer
from lnattn.weights import FirstLayer


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run's first layer after `step` optimiser steps, that is after `tokens` tokens.

    plan, file: the run's plan, and where the weights of the whole model are.
    """

    step: int
    tokens: int
    model: AnyFirstLayer
    plan: TrainingPlan
    file: Path

    def whole(self) -> PreTrainedModel:
        """The model that this is the first layer of, with its head, in float32."""
        model = self.plan.new_model(self.model.tokenizer.eos_token_id)
        weights = {name: value.float() for name, value in load_file(self.file).items()}
        load_weights(model, weights)
        return model.eval()


def turned(first: FirstLayer) -> RelativeFirstLayer:
    """A first layer of GPT-2's shape as one with the rotary positions of `rotary_tables`."""
    block = first.attention

    def tables(positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cos, sin = rotary_tables(positions, block.d_head)
        return cos.to(dtype), sin.to(dtype)

    weights = {name: getattr(block, name) for name in ("ln", "W_Q", "W_K", "b_Q", "b_K", "scale")}
    return RelativeFirstLayer(
        TokenEmbeddings(first.embeddings.W_E),
        RelativeAttention(**weights, rotation=Rotation(tables)),
        first.tokenizer,
        first.provenance,
        context=first.embeddings.n_positions,
    )


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
    config.pop("positions", None)  # a GPT-2 with rotary ones names its weights as any other
    weight_files = {int(file.stem.removeprefix("step-")): file for file in files}
    if (folder / "model.safetensors").is_file():
        weight_files[progress["step"]] = folder / "model.safetensors"
    for step, file in sorted(weight_files.items()):
        family = family_of(config, LocalWeights(f"{folder.name} at step {step}", (file,)))
        about = {
            "name": f"{folder.name} at step {step}",
            "weights_sha256": sha256_of_file(file),
        }
        model = make_first_layer(
            family,
            family.embeddings(),
            family.attention(0),
            tokenizer=tokenizer,
            provenance=about,
        )
        if plan.attention == "rotary":
            model = turned(model)
        yield Snapshot(step, step * plan.batch * plan.context, model, plan, file)


def snapshot_after(folder: Path | str, tokens: int | None = None) -> Snapshot:
    """The snapshot of a run after so many tokens; None: the last that was kept.

    Raises `CheckpointError` where none was kept then.
    """
    by_tokens = {snapshot.tokens: snapshot for snapshot in snapshots(folder)}
    after = max(by_tokens) if tokens is None else tokens
    if after not in by_tokens:
        listed = ", ".join(f"{count:,}" for count in by_tokens)
        raise CheckpointError(f"{folder} kept no weights after {after:,} tokens, but {listed}.")
    return by_tokens[after]
