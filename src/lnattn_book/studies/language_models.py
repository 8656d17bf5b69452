"""What the small language models of chapter 9 gave: frozen results, read (B8 to B10).

Brody et al. 2023, §4.2, Fig. 4 and Tables 1 and 2. `experiments/unselectable_lm` trained the models
and decided their keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from lnattn.errors import ResultError
from lnattn.storage import Result, read_result

#: What feeds attention in each arm: (it projects onto 1^⊥, it scales to norm √d).
ARMS = {
    "full": (True, True),
    "no-scaling": (True, False),
    "no-projection": (False, True),
}

#: The paper's shape; steps, batch and rate for two processor cores instead of the paper's
#: 50,000 steps of 16 windows at 5e-5 (App. E.2), and no dropout, since no token is seen often.
PAPER_SHAPE: dict[str, Any] = {
    "layers": 4,
    "d_model": 8,
    "heads": 4,
    "context": 1024,
    "vocab_size": 8192,
    "batch": 8,
    "steps": 320,
    "learning_rate": 1e-2,
    "warmup": 40,
    "weight_decay": 0.0,
    "dropout": 0.0,
    "evaluate_every": 40,
    "patience": 1_000_000,
}

#: Lengths of a window, in tokens: those of the paper's samples.
SHORTEST, LONGEST = 768, 1024

#: Places to look at that do not belong to one head.
BEFORE, KEYS = 0, 1

#: Laid down before any run was made: every arm at three learning rates for a tenth of the length,
#: then at its best rate, by the loss held out, with three seeds for 200 million tokens.
RATES, SEEDS, LONG = (3e-3, 1e-2, 3e-2), (0, 1, 2), 24_415

#: The share of a run over which its last training loss is averaged: that of one batch is noise.
_END = 0.05

#: The losses of a log, in the order of the arrays' last axis.
LOSSES = ("train_loss", "held_out_loss")


@dataclass(frozen=True)
class FrozenArm:
    """One trained arm as frozen: its name, its arrays (see `freeze_evaluation`) and its record."""

    name: str
    arrays: dict[str, np.ndarray]
    record: dict[str, Any]

    @property
    def arm(self) -> str:
        return self.record["arm"]

    @property
    def d(self) -> int:
        return self.record["plan"]["d_model"]

    @property
    def seed(self) -> int:
        return self.record["plan"]["seed"]

    @property
    def steps(self) -> int:
        """How many steps it was trained for."""
        return self.record["plan"]["steps"]

    def share(self, place: int | slice) -> Float[np.ndarray, "layer"]:
        """Mean share of unselectable keys by layer, over windows (and heads, for a slice)."""
        chosen = self.arrays["exact"][:, place]
        return chosen.reshape(len(chosen), -1).mean(axis=1)

    def searched(self, place: int) -> Float[np.ndarray, "layer"]:
        """The same as the papers' search counts it, over the windows it was run on."""
        return self.arrays["search"][:, place].mean(axis=1)


def read_arm(folder: Path | str, name: str) -> FrozenArm:
    """One frozen arm, by the name of its files."""
    arrays, record = read_result(folder, name)
    if "exact" not in arrays or "plan" not in record:
        raise ResultError(f"{Path(folder) / name}.npz is no evaluated model; evaluate it again.")
    return FrozenArm(name.removeprefix("lm-"), arrays, record)


def frozen_arms(folder: Path | str) -> list[FrozenArm]:
    """All frozen arms of a folder, by width, arm, seed and steps; `ResultError` if it has none."""
    names = [path.stem for path in sorted(Path(folder).glob("lm-*.json"))]
    if not names:
        raise ResultError(
            f"{folder} holds no evaluated model; make one with "
            "`python -m experiments.unselectable_lm evaluate`."
        )
    arms = [read_arm(folder, name) for name in names]
    return sorted(arms, key=lambda arm: (arm.d, arm.arm, arm.seed, arm.steps))


def read_table_1(folder: Path | str, name: str = "table-1") -> tuple[dict, dict[str, Any]]:
    """What `freeze_table_1` froze: arrays and record; `ResultError` where they do not fit."""
    arrays, record = read_result(folder, name)
    shapes = {arrays[key].shape for key in ("exact", "search")}
    if len(shapes) > 1 or arrays["exact"].shape[-1] != record["windows"]:
        raise ResultError(f"{name}.npz does not have the windows that {name}.json names; redo it.")
    return arrays, record


def sweep_name(arm: str, rate: float) -> str:
    """The folder of a short run."""
    return f"{arm}-rate-{rate:g}"


def long_name(arm: str, seed: int) -> str:
    """The folder of a long run."""
    return f"{arm}-s{seed}"


@dataclass(frozen=True, eq=False)
class LongRuns(Result):
    """Losses and unselectable keys of the runs of `train_long`. Made by `freeze_long`.

    Arms are in the order of `ARMS`, losses in that of `LOSSES`, in nats a token; what was not
    trained yet is NaN. sweep: [arm rate loss], at the end of the short runs. The rest is of the
    long runs or, while none is finished, of each arm's short run at its best rate: tokens: seen at
    each evaluation, in millions; losses: [arm seed evaluation loss]; kept: tokens seen at each
    snapshot, in millions; unselectable: [arm seed snapshot layer place window], shares, the places
    being those of `Evaluation`; record: what made it, and under `runs` which runs these are.
    """

    NAME: ClassVar[str] = "long-runs"

    rates: Float[np.ndarray, "rate"]
    sweep: Float[np.ndarray, "arm rate loss"]
    tokens: Float[np.ndarray, "evaluation"]
    losses: Float[np.ndarray, "arm seed evaluation loss"]
    kept: Float[np.ndarray, "snapshot"]
    unselectable: Float[np.ndarray, "arm seed snapshot layer place window"]
    record: Mapping[str, Any]

    def arm(self, name: str) -> int:
        """The place of an arm."""
        return list(ARMS).index(name)

    def rates_tried(self) -> int:
        """At how many rates each arm was trained, at least."""
        return int(np.isfinite(self.sweep[..., 1]).sum(axis=1).min())

    def ends(self, name: str) -> Float[np.ndarray, "seed loss"]:
        """The last losses of an arm's long runs: in training over the last twentieth, held out."""
        late = self.tokens > (1 - _END) * self.tokens[-1]
        losses = self.losses[self.arm(name)]
        return np.stack([losses[:, late, 0].mean(axis=1), losses[:, -1, 1]], axis=1)

    def pairs(self, arm: str, other: str, loss: str) -> Float[np.ndarray, "pair 2"]:
        """The last losses of two arms, of the seeds with which both were trained."""
        which = LOSSES.index(loss)
        both = np.stack([self.ends(arm)[:, which], self.ends(other)[:, which]], axis=1)
        return both[np.isfinite(both).all(axis=1)]

    def shares(self, name: str, place: int | slice) -> Float[np.ndarray, "seed snapshot layer"]:
        """Unselectable keys of an arm, over windows (and heads, for a slice), where trained."""
        of_arm = self.unselectable[self.arm(name)][..., place, :]
        return of_arm.reshape(*of_arm.shape[:3], -1).mean(axis=-1)


def mean_and_interval(
    differences: Float[np.ndarray, "n"], level: float = 0.95
) -> tuple[float, float, float]:
    """The mean of some differences and its interval by Student's t; without bounds for n < 2."""
    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return mean, -math.inf, math.inf
    half = float(student.ppf((1 + level) / 2, n - 1) * np.std(differences, ddof=1) / n**0.5)
    return mean, mean - half, mean + half
