"""The numbers of chapter 8 and of its robustness page, from the frozen majority experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn_book.studies.majority import long_runs
from lnattn_book.studies.majority.encoder import ARMS
from lnattn_book.studies.majority.long_runs import Curves, Experiment
from lnattn_book.studies.majority.task import majority_data
from lnattn_book.studies.majority.train import MajorityPlan

__all__ = [
    "LEVEL",
    "best_setting",
    "compared_settings",
    "difference_from_frozen",
    "endings",
    "epochs_by",
    "epochs_to_level",
    "falls_of_the_angle",
    "has_projection",
    "ratios",
    "runs_above",
    "share_of_ones",
    "tuned_ratio",
    "turns",
    "width_ratios",
]

#: The test accuracy at which the chapter and its robustness page count epochs.
LEVEL = 0.8


def epochs_to_level(curves: Curves, accuracy: float = LEVEL) -> float:
    """Epochs that the median run of an arm needs to this accuracy; infinite if it never does."""
    return long_runs.median(long_runs.epochs_to(curves, accuracy=accuracy)).value


def ratios(
    experiment: Experiment, pairs: Mapping[str, tuple[str, str]], accuracies: Iterable[float]
) -> pd.DataFrame:
    """How many times more epochs the slow arm of each pair needs, a row an accuracy.

    pairs: title → (slow arm, fast arm). NaN where the median run of the fast arm never arrives.
    """
    table = {}
    for title, (slow, fast) in pairs.items():
        estimates = [long_runs.slowdown(experiment, slow, fast, accuracy=a) for a in accuracies]
        table[title] = [np.nan if estimate is None else estimate.value for estimate in estimates]
    return pd.DataFrame(table, index=pd.Index(accuracies, name="accuracy").round(2))


def endings(experiment: Experiment) -> pd.DataFrame:
    """Test accuracy at the end over the runs of each arm: median, mean, lowest, highest."""
    ends = {name: experiment.of(name).accuracy[:, -1] for name in experiment.arms}
    rows = {
        name: {"median": np.median(x), "mean": x.mean(), "lowest": x.min(), "highest": x.max()}
        for name, x in ends.items()
    }
    return pd.DataFrame(rows).T.astype(float)


def has_projection(arm: str) -> bool:
    """Whether an arm projects, along 1 or along another vector."""
    return ARMS[arm].project or ARMS[arm].direction != "none"


def best_setting(sweep: Experiment, arm: str) -> Curves:
    """The runs of the setting (learning rate, initial scale) with which an arm arrives first."""
    return min((curves for curves in sweep.curves if curves.arm == arm), key=epochs_to_level)


def tuned_ratio(sweep: Experiment, slow: str, fast: str) -> float:
    """How many times more epochs `slow` needs than `fast`, each with the setting that suits it."""
    return epochs_to_level(best_setting(sweep, slow)) / epochs_to_level(best_setting(sweep, fast))


def falls_of_the_angle(
    experiment: Experiment, arm: str, **setting: object
) -> Float[np.ndarray, "run"]:
    """Degrees by which each run's mean angle between queries and 1 falls from start to end.

    setting: values of the plan that the runs must have; without any, all runs of the arm.
    """
    chosen = [
        curves
        for curves in experiment.curves
        if curves.arm == arm and all(getattr(curves.plan, k) == v for k, v in setting.items())
    ]
    return np.concatenate([curves.angle[:, 0] - curves.angle[:, -1] for curves in chosen])


def turns(
    sweep: Experiment, arms: Iterable[str], scales: Iterable[float], degrees: float
) -> pd.DataFrame:
    """How many of an arm's runs turn their queries by more than `degrees`: a row an arm and scale.

    spread: standard deviation of a query's scores before training, the mean over runs.
    """
    rows = {}
    for arm, scale in product(arms, scales):
        runs = [one for one in sweep.curves if one.arm == arm and one.plan.initial_scale == scale]
        spread = np.mean([one.spread[:, 0].mean() for one in runs])
        falls = falls_of_the_angle(sweep, arm, initial_scale=scale)
        turn = int((falls > degrees).sum())
        rows[arm, scale] = (has_projection(arm), spread, turn, len(falls))
    index = pd.MultiIndex.from_tuples(rows, names=["arm", "initial scale"])
    columns = ["projects", "spread", "turn", "runs"]
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def difference_from_frozen(frozen: Curves, live: Mapping[str, np.ndarray], seed: int = 0) -> float:
    """The largest difference in training loss between a run made now and the frozen one, nats."""
    same_epochs = np.isin(frozen.epoch, live["epoch"])
    loss = frozen.loss[frozen.seeds.index(seed), same_epochs]
    return float(np.abs(live["loss"][0] - loss).max())


def epochs_by(curves: Iterable[Curves], setting: Callable[[MajorityPlan], Any]) -> pd.DataFrame:
    """Median epochs to 80 % test accuracy: a row an arm, a column a setting of its plan."""
    epochs = {(run.arm, setting(run.plan)): epochs_to_level(run) for run in curves}
    return pd.Series(epochs).unstack()


def runs_above(
    experiment: Experiment, upper: str, lower: str, rates: Iterable[float]
) -> list[bool]:
    """For each pair of runs (one seed, one rate, scale 1): whether `upper` ends above `lower`."""
    above: list[bool] = []
    for rate in rates:
        plan = {"learning_rate": rate, "initial_scale": 1.0}
        high = experiment.of(upper, **plan)
        low = experiment.of(lower, **plan)
        above += (high.accuracy[:, -1] > low.accuracy[:, -1]).tolist()
    return above


def share_of_ones(scheme: str, seed: int, examples: int = 20_000) -> float:
    """The share of examples whose rarest class that occurs does so just once."""
    counts = majority_data(examples, scheme=scheme, seed=seed).train.astype(int)
    rarest = np.where(counts > 0, counts, np.iinfo(int).max).min(axis=1)
    return float((rarest == 1).mean())


def compared_settings(
    settings: Mapping[str, Experiment], slow: str, fast: str, accuracies: Sequence[float]
) -> pd.DataFrame:
    """A row a setting: how many times slower at each accuracy, and where both arms end (mean)."""
    rows = {}
    for title, experiment in settings.items():
        ratio = ratios(experiment, {title: (slow, fast)}, accuracies)[title]
        slower = {
            f"slower at {accuracy:.0%}": ratio.iloc[i] for i, accuracy in enumerate(accuracies)
        }
        ends = endings(experiment)["mean"]
        rows[title] = slower | {f"{arm} ends": ends[arm] for arm in (fast, slow)}
    return pd.DataFrame(rows).T.rename_axis("setting")


def width_ratios(curves: Iterable[Curves], slow: str, fast: str) -> dict[int, long_runs.Estimate]:
    """Width → how many times more epochs to 80 % `slow` needs, where both medians arrive."""
    epochs = {
        (run.arm, run.plan.d_model): long_runs.epochs_to(run, accuracy=LEVEL) for run in curves
    }
    widths = sorted(width for arm, width in epochs if arm == slow)
    arrived = [
        width
        for width in widths
        if all(np.isfinite(long_runs.median(epochs[arm, width]).value) for arm in (slow, fast))
    ]
    return {
        width: long_runs.ratio_of_medians(epochs[slow, width], epochs[fast, width])
        for width in arrived
    }
