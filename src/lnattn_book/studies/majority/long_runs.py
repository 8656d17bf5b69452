"""What the majority experiment found: curves by arm, epochs to a threshold, bootstrap intervals.

Reads what `python -m experiments.majority` froze; trains nothing. Brody et al. (2023, §4.1, Fig.
2 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lnattn.errors import ResultError
from lnattn.inputs import whole_number
from lnattn.storage import Result
from lnattn_book.studies.majority.train import MajorityPlan

#: Resamples behind every interval.
_RESAMPLES = 10_000
#: Arrays of a job that have a row for each of its runs.
_OF_RUNS = ("loss", "accuracy", "angle", "spread", "queries", "keys")


@dataclass(frozen=True, eq=False)
class Curves:
    """All runs of one arm under one plan.

    loss: training loss, nats a position; accuracy: share of test positions; angle: mean over
    classes of the angle between the query and the line through 1, degrees; spread: standard
    deviation of a query's scores, mean over queries. queries and keys: after the last step.
    """

    arm: str
    plan: MajorityPlan
    seeds: tuple[int, ...]
    epoch: Int[np.ndarray, "point"]
    loss: Float[np.ndarray, "run point"]
    accuracy: Float[np.ndarray, "run point"]
    angle: Float[np.ndarray, "run point"]
    spread: Float[np.ndarray, "run point"]
    queries: Float[np.ndarray, "run classes d"]
    keys: Float[np.ndarray, "run classes d"]


@dataclass(frozen=True)
class Experiment(Result):
    """A frozen experiment: its curves, one entry for each arm and plan, and its record."""

    curves: tuple[Curves, ...]
    record: Mapping[str, Any]

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> Experiment:
        """Jobs of one arm and plan are joined.

        Raises `ValueError`, which the reader of the file makes a `ResultError`, for a job without
        arrays.
        """
        jobs: dict[tuple[str, MajorityPlan], list[dict[str, Any]]] = {}
        for job in record["jobs"]:
            prefix = f"{job['name']}/"
            of_job = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            if not of_job:
                raise ValueError(f"there are no arrays of job {job['name']!r}")
            arm_and_plan = (job["arm"], MajorityPlan(**job["plan"]))
            jobs.setdefault(arm_and_plan, []).append({**of_job, "seeds": job["seeds"]})
        curves = []
        for (arm, plan), parts in jobs.items():
            runs = {name: np.concatenate([part[name] for part in parts]) for name in _OF_RUNS}
            curves.append(
                Curves(
                    arm=arm,
                    plan=plan,
                    seeds=tuple(seed for part in parts for seed in part["seeds"]),
                    epoch=parts[0]["epoch"],
                    **runs,
                )
            )
        return cls(tuple(curves), record)

    def of(self, arm: str, **plan: object) -> Curves:
        """The curves of an arm, whose plan has these values; there must be exactly one.

        Raises `ResultError` where there are none or several.
        """
        matching = [
            curves
            for curves in self.curves
            if curves.arm == arm
            and all(getattr(curves.plan, name) == value for name, value in plan.items())
        ]
        if len(matching) != 1:
            raise ResultError(
                f"{len(matching)} of the frozen curves are of {arm}, {plan}, not one; the arms are "
                f"{', '.join(self.arms)}."
            )
        return matching[0]

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that occur, in the order in which they were run."""
        return tuple(dict.fromkeys(curves.arm for curves in self.curves))


class Estimate(NamedTuple):
    """A number with a 95 % bootstrap interval over seeds; infinite where runs never arrived."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = map(words, self)
        return value if np.isinf(self.low) else f"{value} ({low} to {high})"


def epochs_to(
    curves: Curves, *, accuracy: float | None = None, loss: float | None = None
) -> Float[np.ndarray, "run"]:
    """The first measured epoch at which a run has this accuracy, or a loss this low; else inf.

    Exactly one of the two thresholds; `ResultError` for none or both.
    """
    if (accuracy is None) == (loss is None):
        raise ResultError("give one threshold, of accuracy or of loss.")
    reached = curves.accuracy >= accuracy if loss is None else curves.loss <= loss
    first_epoch = curves.epoch[reached.argmax(axis=1)]
    return np.where(reached.any(axis=1), first_epoch, np.inf).astype(np.float64)


def median(values: Float[np.ndarray, "run"], *, seed: int = 0) -> Estimate:
    """The median over runs, with a percentile bootstrap interval; infinities are allowed."""
    resampled_runs = _resampled_runs(len(values), seed)
    return _estimate(float(_middle(values)), _middle(values[resampled_runs]))


def ratio_of_medians(
    slow: Float[np.ndarray, "run"], fast: Float[np.ndarray, "same"], *, seed: int = 0
) -> Estimate:
    """The ratio of two arms' medians; seeds are resampled in pairs, as they share data and start.

    Raises `ResultError` for different numbers of runs, or where the median of `fast` is 0 or
    infinite.
    """
    if len(slow) != len(fast):
        raise ResultError(f"arms of {len(slow)} and {len(fast)} runs cannot be paired by seed.")
    if not 0 < _middle(fast) < np.inf:
        raise ResultError("the faster arm's median is 0 or infinite, so there is no ratio.")
    resampled_runs = _resampled_runs(len(slow), seed)
    slow_medians = _middle(slow[resampled_runs])
    fast_medians = _middle(fast[resampled_runs])
    has_ratio = (fast_medians > 0) & (fast_medians < np.inf)
    ratio = float(_middle(slow) / _middle(fast))
    return _estimate(ratio, slow_medians[has_ratio] / fast_medians[has_ratio])


def slowdown(
    experiment: Experiment,
    slow: str,
    fast: str,
    *,
    accuracy: float | None = None,
    loss: float | None = None,
) -> Estimate | None:
    """How many times more epochs arm `slow` needs than arm `fast`, to this accuracy or this loss.

    Paired by the seeds that both arms have. None where the median run of `fast` never arrives.
    """
    slow_runs = experiment.of(slow)
    fast_runs = experiment.of(fast)
    common_seeds = [seed for seed in slow_runs.seeds if seed in fast_runs.seeds]
    slow_epochs = epochs_to(slow_runs, accuracy=accuracy, loss=loss)
    fast_epochs = epochs_to(fast_runs, accuracy=accuracy, loss=loss)
    slow_epochs = slow_epochs[[slow_runs.seeds.index(seed) for seed in common_seeds]]
    fast_epochs = fast_epochs[[fast_runs.seeds.index(seed) for seed in common_seeds]]
    if not 0 < _middle(fast_epochs) < np.inf:
        return None
    return ratio_of_medians(slow_epochs, fast_epochs)


def lag(experiment: Experiment, slow: str, fast: str, **level: float) -> Estimate | None:
    """As `slowdown`, but 0 where arm `slow` alone arrives; None only where neither does."""
    factor = slowdown(experiment, slow, fast, **level)
    if factor is None and slowdown(experiment, fast, slow, **level) is not None:
        return Estimate(value=0.0, low=0.0, high=0.0)
    return factor


def fall_of_the_angle(curves: Curves) -> Estimate:
    """Degrees by which the mean angle between queries and 1 is smaller at the end than before."""
    return median((curves.angle[:, 0] - curves.angle[:, -1]).astype(np.float64))


def _resampled_runs(runs: int, seed: int) -> Int[np.ndarray, "resample run"]:
    """Rows of runs, drawn with replacement, for every resample."""
    whole_number(runs, "the number of runs", error=ResultError)
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _middle(values: np.ndarray) -> np.ndarray:
    """The median over the last axis; of an even number, the mean of the middle two (inf counts)."""
    ordered = np.sort(values, axis=-1)
    size = values.shape[-1]
    return np.asarray((ordered[..., (size - 1) // 2] + ordered[..., size // 2]) / 2)


def _estimate(value: float, resampled: np.ndarray) -> Estimate:
    low, high = np.quantile(resampled, (0.025, 0.975), method="inverted_cdf")
    return Estimate(value=value, low=float(low), high=float(high))


def words(value: float) -> str:
    """A number as a table shows it; 'not reached' where it is infinite."""
    if np.isinf(value):
        return "not reached"
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.3g}"
