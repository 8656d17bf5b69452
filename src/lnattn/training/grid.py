"""A grid of small models that differ in context, depth and number of heads, and in nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from lnattn.errors import CheckpointError
from lnattn.storage import read_json
from lnattn.text.tokenizers import load_tokenizer
from lnattn.training.loop import train
from lnattn.training.plan import TrainingPlan
from lnattn.training.snapshots import Snapshot, snapshots


@dataclass(frozen=True)
class Cell:
    """One model of the grid: context in tokens, transformer blocks, attention heads a block."""

    context: int
    layers: int
    heads: int

    @property
    def name(self) -> str:
        return f"context-{self.context}-layers-{self.layers}-heads-{self.heads}"


#: Short contexts first: they are the quickest.
GRID = tuple(Cell(*shape) for shape in product((64, 256, 1024), (2, 4), (8, 16)))


def train_grid(
    run: Path | str,
    folder: Path | str,
    cells: Sequence[Cell] = GRID,
    *,
    steps: int = 2048,
    compiled: bool = False,
    progress: bool = True,
) -> Iterator[tuple[Cell, Snapshot]]:
    """Train the cells one by one, each in a folder of its own, and yield its last snapshot.

    run: the folder of a run of `lnattn train-book-model`, whose tokenizer, tokens and plan all
    cells take over; each step sees as many tokens as one of its. steps: a power of two, so that the
    last step is kept. Called again, it goes on where it was interrupted.
    Raises `CheckpointError` where `run` is no such folder, or for other steps.
    """
    run, folder = Path(run), Path(folder)
    if steps < 64 or steps & (steps - 1):
        raise CheckpointError(f"steps must be a power of two and at least 64, not {steps}.")
    plan = TrainingPlan(**read_json(run / "checkpoint" / "progress.json")["plan"])
    tokenizer = load_tokenizer(run)
    train_tokens, held_out = (
        _tokens(run / "checkpoint" / f"{role}_tokens.npy") for role in ("train", "held_out")
    )
    a_step = plan.batch * plan.context
    for cell in cells:
        own = replace(
            plan,
            context=cell.context,
            layers=cell.layers,
            heads=cell.heads,
            batch=max(1, a_step // cell.context),
            steps=steps,
        )
        place = folder / cell.name
        train(
            train_tokens,
            held_out,
            own,
            place,
            tokenizer.eos_token_id,
            compiled=compiled,
            progress=progress,
        )
        tokenizer.save_pretrained(str(place))
        yield cell, list(snapshots(place))[-1]


def _tokens(path: Path) -> np.ndarray:
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; give the folder of a training run.")
    return np.load(path, mmap_mode="r", allow_pickle=False)
