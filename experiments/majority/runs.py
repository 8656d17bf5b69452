"""Runs of the majority model, each kept as soon as it is done."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.majority.gradients import FastLearner
from experiments.once import once
from lnattn.products import one_thread_a_call
from lnattn_book.studies.majority.encoder import arm
from lnattn_book.studies.majority.train import MajorityPlan, train


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
        return re.sub(r"[^a-z0-9.-]+", "-", self.name.lower())


def trained(job: Job, seed: int) -> dict[str, np.ndarray]:
    """One run of a job, by the kernel; a loss that is no number is told of by `train`."""
    # The arrays are tiny, and the threads are the kernel's.
    with one_thread_a_call(), np.errstate(over="ignore", invalid="ignore"):
        return train(arm(job.arm), job.plan, seed, FastLearner)


def run_job(
    job: Job, folder: Path | str, progress: Callable[[int], object] = lambda epochs: None
) -> dict[str, np.ndarray]:
    """Train the runs of a job that are not in the folder, and return what all have found.

    progress: called with the epochs of each run that is done. Returns `epoch` [point]; `loss`,
    `accuracy`, `angle` and `spread`, float32 [run point], and `queries` and `keys` [run class d],
    as `lnattn_book.studies.majority.train.train` says; `seconds`, of all runs.
    Raises `ResultError` when the folder holds another job of this name.
    """
    by_seed = []
    seconds = 0.0
    for seed in job.seeds:
        settings = {"arm": job.arm, "plan": asdict(job.plan), "seed": seed}
        make = partial(trained, job, seed)
        arrays, record = once(folder, f"{job.file_name}-seed-{seed}", settings, make)
        by_seed.append(arrays)
        seconds += record["seconds"]
        progress(job.plan.epochs)
    runs = {
        key: np.concatenate([outcome[key] for outcome in by_seed]).astype(np.float32)
        for key in by_seed[0]
        if key != "epoch"
    }
    return {"epoch": by_seed[0]["epoch"], **runs, "seconds": np.array(seconds)}
