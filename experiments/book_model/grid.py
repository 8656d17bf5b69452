"""A grid of small models: one training run, and others that differ from it in one thing or two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.book_model.loop import train
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshots import Snapshot, snapshots
from lnattn.errors import CheckpointError
from lnattn.storage import read_json
from lnattn.text.tokenizers import load_tokenizer

#: What a run may differ in and still be the same up to the steps that both have made.
_NO_MATTER = ("steps", "patience", "evaluate_every")


@dataclass(frozen=True)
class Cell:
    """One model of the grid: context in tokens, transformer blocks, attention heads a block.

    positions: "learned", or "rotary", in a Llama of as many parameters.
    """

    context: int
    layers: int
    heads: int
    positions: str = "learned"

    @property
    def name(self) -> str:
        shape = f"context-{self.context}-layers-{self.layers}-heads-{self.heads}"
        return shape if self.positions == "learned" else f"{shape}-{self.positions}"

    def of(self, plan: TrainingPlan) -> TrainingPlan:
        """A run's plan with this shape, each step of as many tokens as one of the run's."""
        return replace(
            plan,
            context=self.context,
            layers=self.layers,
            heads=self.heads,
            batch=max(1, plan.batch * plan.context // self.context),
            architecture="gpt2" if self.positions == "learned" else "llama",
        )


#: Around book-gpt2's shape, which is the first: what tells most is trained first.
GRID = (
    Cell(256, 2, 8),
    Cell(256, 2, 8, "rotary"),
    Cell(64, 2, 8),
    Cell(1024, 2, 8),
    Cell(256, 2, 16),
    Cell(64, 2, 16),
    Cell(256, 4, 8),
)


def train_grid(
    run: Path | str,
    folder: Path | str,
    cells: Sequence[Cell] = GRID,
    *,
    steps: int = 2048,
    only_made: bool = False,
    compiled: bool = False,
    progress: bool = True,
) -> Iterator[tuple[Cell, Snapshot]]:
    """Train the cells one by one, each in a folder of its own, and yield its last snapshots.

    run: the folder of a run of `train`, whose tokenizer, tokens and plan all
    cells take over, its learning rates too: a cell stops after `steps`, a power of two, wherever
    the run itself went on to. So a cell of the run's own shape is the run, and nothing is trained
    for it. Snapshots from a quarter of the steps on are yielded. Called again, it goes on where it
    was interrupted; only_made: train nothing, and yield what is there.
    Raises `CheckpointError` where `run` is no such folder, for other steps, and where a cell's
    folder holds another training.
    """
    run, folder = Path(run), Path(folder)
    if steps < 64 or steps & (steps - 1):
        raise CheckpointError(f"steps must be a power of two and at least 64, not {steps}.")
    plan = _plan(run)
    for cell in cells:
        own = cell.of(plan)
        place = run if _alike(own, plan) else folder / cell.name
        if not (_is_made(place, own, steps) or only_made):
            own = replace(own, evaluate_every=max(steps, plan.steps), steps=max(steps, plan.steps))
            _train(run, place, own, steps, compiled=compiled, progress=progress)
        if any((place / "checkpoint").glob("step-*.safetensors")):
            found = [one for one in snapshots(place) if 4 * one.step >= steps >= one.step]
            yield from ((cell, one) for one in found)


def _train(run: Path, place: Path, plan: TrainingPlan, until: int, **how: Any) -> None:
    tokenizer = load_tokenizer(run)
    train_tokens, held_out = (
        _tokens(run / "checkpoint" / f"{role}_tokens.npy") for role in ("train", "held_out")
    )
    train(train_tokens, held_out, plan, place, tokenizer.eos_token_id, until=until, **how)
    tokenizer.save_pretrained(str(place))


def _is_made(place: Path, plan: TrainingPlan, steps: int) -> bool:
    """Whether a folder holds this training up to these steps; another one is an error."""
    if not (place / "checkpoint" / "progress.json").is_file():
        return False
    if not _alike(_plan(place), plan):
        raise CheckpointError(f"{place} holds a run with another plan; use another folder.")
    return (place / "checkpoint" / f"step-{steps:06d}.safetensors").is_file()


def _plan(run: Path) -> TrainingPlan:
    return TrainingPlan(**read_json(run / "checkpoint" / "progress.json")["plan"])


def _alike(one: TrainingPlan, other: TrainingPlan) -> bool:
    return replace(one, **{name: getattr(other, name) for name in _NO_MATTER}) == other


def _tokens(path: Path) -> np.ndarray:
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; give the folder of a training run.")
    return np.load(path, mmap_mode="r", allow_pickle=False)
