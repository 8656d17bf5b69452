"""Long training runs of the majority model: resumable, and safe against interruption at any time.

A job is one arm and plan with all its seeds. Its state (parameters, the optimiser's moments, the
curves so far) is one file, replaced atomically every few seconds; batches depend on seed and epoch
alone. A job that was interrupted, also by kill -9, ends exactly where it would have ended.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from experiments.majority.stack import Stack
from lnattn.errors import ResultError
from lnattn.majority import model
from lnattn.majority.train import MajorityPlan, angles_to_ones
from lnattn.storage import write_atomically

#: Seconds between two saved states.
_SAVE_EVERY = 20.0


@dataclass(frozen=True)
class Job:
    """One arm and plan, trained with each of some seeds. name: unique within its experiment."""

    name: str
    arm: str
    plan: MajorityPlan
    seeds: tuple[int, ...]

    def record(self) -> dict[str, object]:
        """The job as plain values; two jobs are the same if their records are."""
        return {
            "name": self.name,
            "arm": self.arm,
            "plan": asdict(self.plan),
            "seeds": list(self.seeds),
        }

    @property
    def file_name(self) -> str:
        """A file name made of the job's name."""
        return re.sub(r"[^a-z0-9.-]+", "-", self.name.lower()) + ".npz"

    def evaluations(self) -> list[int]:
        """The epochs after which the curves have a point: 0, every few, and the last."""
        every, last = self.plan.evaluate_every, self.plan.epochs
        return [*range(0, last, every), last]


def run_job(
    job: Job,
    folder: Path | str,
    *,
    workers: int = 1,
    progress: Callable[[int, float], None] = lambda epochs, loss: None,
    save_every: float = _SAVE_EVERY,
) -> dict[str, np.ndarray]:
    """Train all runs of a job, or go on with it, or return what it has found.

    folder: where the state is kept. progress: called with the number of epochs done since the last
    call and the mean training loss. Returns `epoch` [point]; `loss` (training, mean over the
    epoch before; at epoch 0 of the first batch), `accuracy` (share of test positions), `angle`
    (degrees) and `spread`, all float32 [run, point]; `queries` and `keys` [run, class, d] at the
    end; `seconds`. See `measures` for the last two curves.
    Raises `ResultError` when the folder holds another job of this name.
    """
    path = Path(folder) / job.file_name
    state = _read_state(path, job)
    if state is not None and int(state["done"]) == job.plan.epochs:
        progress(job.plan.epochs, float(state["loss"][:, -1].mean()))
        return _findings(state)
    stack = Stack(model.arm(job.arm), job.plan, job.seeds, workers=workers)
    curves = _Curves(job)
    done, seconds = 0, 0.0
    if state is None:
        curves.add(stack, stack.backward(stack.batches(0)[0]))
    else:
        done, seconds = int(state["done"]), float(state["seconds"])
        _restore(stack, state)
        curves.restore(state)
        progress(done, float(curves.loss[-1].mean()))
    saved = time.perf_counter()
    while done < job.plan.epochs:
        losses, weights = [], []
        for batches in stack.batches(done):
            losses.append(stack.step(batches))
            weights.append(len(batches[0]))
        done += 1
        loss = np.average(losses, axis=0, weights=weights)
        if done % job.plan.evaluate_every == 0 or done == job.plan.epochs:
            curves.add(stack, loss)
        progress(1, float(loss.mean()))
        elapsed = time.perf_counter() - saved
        if elapsed >= save_every or done == job.plan.epochs:
            seconds, saved = seconds + elapsed, saved + elapsed
            state = {**curves.arrays(done), **_snapshot(stack, job, done, seconds)}
            write_atomically(path, partial(_savez, state))
    assert state is not None  # the last epoch's
    return _findings(state)


def _savez(arrays: dict[str, Any], file: BinaryIO) -> None:
    np.savez(file, **arrays)


def measures(stack: Stack) -> tuple[np.ndarray, np.ndarray]:
    """How far the queries are from 1, and how unequal the scores are, by run.

    The angle is the mean over classes of the angle in degrees between y Q Kᵀ/√d and the *line*
    through 1, as the authors fold it: 0 is parallel, 90 orthogonal. The spread is the mean over
    query classes of the standard deviation of the scores over key classes: 0 is equal attention.
    """
    attention = stack.attention()
    return angles_to_ones(attention.queries.numpy()).mean(axis=-1), attention.scores.std(
        dim=-1, unbiased=False
    ).mean(dim=-1).numpy()


class _Curves:
    """The points measured so far."""

    names = ("loss", "accuracy", "angle", "spread")

    def __init__(self, job: Job) -> None:
        self.epochs = job.evaluations()
        self.loss: list[np.ndarray] = []
        self.accuracy: list[np.ndarray] = []
        self.angle: list[np.ndarray] = []
        self.spread: list[np.ndarray] = []

    def add(self, stack: Stack, loss: np.ndarray) -> None:
        angle, spread = measures(stack)
        for name, value in zip(self.names, (loss, stack.test()[1], angle, spread), strict=True):
            getattr(self, name).append(np.asarray(value, dtype=np.float32))

    def arrays(self, done: int) -> dict[str, np.ndarray]:
        found = {name: np.stack(getattr(self, name), axis=1) for name in self.names}
        return {"epoch": np.array(self.epochs[: len(self.loss)], dtype=np.int32), **found}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for name in self.names:
            setattr(self, name, list(state[name].T))


def _snapshot(stack: Stack, job: Job, done: int, seconds: float) -> dict[str, np.ndarray]:
    first, second = stack.moments
    attention = stack.attention()
    return {
        "queries": attention.queries.numpy(),
        "keys": attention.normalised.numpy(),
        "flat": stack.flat.detach().numpy(),
        "first_moment": first,
        "second_moment": second,
        "step": np.array(stack.step_number),
        "done": np.array(done),
        "seconds": np.array(seconds),
        "job": np.array(json.dumps(job.record())),
    }


def _restore(stack: Stack, state: Mapping[str, np.ndarray]) -> None:
    stack.step_number = int(state["step"])
    with torch.no_grad():
        stack.flat.copy_(torch.from_numpy(state["flat"]))
    for moment, name in zip(stack.moments, ("first_moment", "second_moment"), strict=True):
        moment[:] = state[name]


def _read_state(path: Path, job: Job) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            state = {key: file[key] for key in file.files}
        found = json.loads(str(state["job"]))
    except Exception as error:  # a damaged zip raises half a dozen unrelated types
        raise ResultError(f"{path} cannot be read ({error}); delete it and run again.") from error
    if found != job.record():
        raise ResultError(
            f"{path} holds a run with other settings; delete it, or choose another folder."
        )
    return state


def _findings(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    kept = ("epoch", *_Curves.names, "queries", "keys", "seconds")
    return {name: np.asarray(state[name]) for name in kept}
