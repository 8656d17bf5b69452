"""What the majority experiment found: curves by arm, epochs to a threshold, bootstrap intervals.

Reads what `majority_experiments` froze; trains nothing. Brody et al. (2023, §4.1, Fig. 2 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lnattn.errors import ResultError
from lnattn.inputs import whole_number
from lnattn.majority.train import MajorityPlan
from lnattn.storage import Result

#: Resamples behind every interval.
_RESAMPLES = 10_000


@dataclass(frozen=True)
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
        """Jobs of one arm and plan are joined."""
        joined: dict[tuple[str, MajorityPlan], list[dict[str, Any]]] = {}
        for job in record["jobs"]:
            prefix = f"{job['name']}/"
            own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            if not own:
                raise ValueError(f"there are no arrays of job {job['name']!r}")
            key = (job["arm"], MajorityPlan(**job["plan"]))
            joined.setdefault(key, []).append({**own, "seeds": job["seeds"]})
        curves = []
        for key, parts in joined.items():
            seeds = tuple(seed for own in parts for seed in own["seeds"])
            names = ("loss", "accuracy", "angle", "spread", "queries", "keys")
            runs = (np.concatenate([own[name] for own in parts]) for name in names)
            arm, plan = key
            arrays_of_runs = dict(zip(names, runs, strict=True))
            curves.append(
                Curves(arm=arm, plan=plan, seeds=seeds, epoch=parts[0]["epoch"], **arrays_of_runs)
            )
        return cls(tuple(curves), record)

    def of(self, arm: str, **plan: object) -> Curves:
        """The curves of an arm, whose plan has these values; there must be exactly one."""
        found = [
            curves
            for curves in self.curves
            if curves.arm == arm and all(getattr(curves.plan, k) == v for k, v in plan.items())
        ]
        if len(found) != 1:
            raise ResultError(f"{len(found)} of the frozen curves are of {arm}, {plan}, not one.")
        return found[0]

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
    first = np.where(reached.any(axis=1), curves.epoch[reached.argmax(axis=1)], np.inf)
    return first.astype(np.float64)


def median(values: Float[np.ndarray, "run"], *, seed: int = 0) -> Estimate:
    """The median over runs, with a percentile bootstrap interval; infinities are allowed."""
    picks = _picks(len(values), seed)
    return _estimate(float(_middle(values)), _middle(values[picks]))


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
    picks = _picks(len(slow), seed)
    below = _middle(fast[picks])
    kept = (below > 0) & (below < np.inf)
    ratio = float(_middle(slow) / _middle(fast))
    return _estimate(ratio, _middle(slow[picks])[kept] / below[kept])


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
    one, other = experiment.of(slow), experiment.of(fast)
    common = [seed for seed in one.seeds if seed in other.seeds]
    late, early = (
        epochs_to(arm, accuracy=accuracy, loss=loss)[[arm.seeds.index(seed) for seed in common]]
        for arm in (one, other)
    )
    if not 0 < _middle(early) < np.inf:
        return None
    return ratio_of_medians(late, early)


def lag(experiment: Experiment, slow: str, fast: str, **level: float) -> Estimate | None:
    """As `slowdown`, but 0 where arm `slow` alone arrives; None only where neither does."""
    found = slowdown(experiment, slow, fast, **level)
    if found is None and slowdown(experiment, fast, slow, **level) is not None:
        return Estimate(0.0, 0.0, 0.0)
    return found


def fall_of_the_angle(curves: Curves) -> Estimate:
    """Degrees by which the mean angle between queries and 1 is smaller at the end than before."""
    return median((curves.angle[:, 0] - curves.angle[:, -1]).astype(np.float64))


def _picks(runs: int, seed: int) -> np.ndarray:
    whole_number(runs, "the number of runs", error=ResultError)
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _middle(values: np.ndarray) -> np.ndarray:
    """The median over the last axis; of an even number, the mean of the middle two (inf counts)."""
    ordered = np.sort(values, axis=-1)
    size = values.shape[-1]
    return np.asarray((ordered[..., (size - 1) // 2] + ordered[..., size // 2]) / 2)


def _estimate(value: float, resampled: np.ndarray) -> Estimate:
    low, high = np.quantile(resampled, (0.025, 0.975), method="inverted_cdf")
    return Estimate(value, float(low), float(high))


def words(value: float) -> str:
    """A number as a table shows it; 'not reached' where it is infinite."""
    if np.isinf(value):
        return "not reached"
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.3g}"
