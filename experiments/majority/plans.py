"""The experiments on majority, as lists of jobs, and their frozen results.

`MAIN` is the experiment of Brody et al. (2023, §4.1) with the arms that tell projection and norm
apart. The others ask what its outcome depends on: the width, the learning rate and the initial
scale, which part of attention's input has which norm, the authors' own schedule and data, and the
vectors that keys are made orthogonal to (§5). The controls ask whether the projection matters at
all, at equal norm and with each arm at its own best rate and scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.majority.runs import Job, run_job
from experiments.once import forget
from lnattn.errors import ShapeError
from lnattn.progress import progress_bar
from lnattn.storage import provenance, read_json, write_result
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.majority.task import AUTHORS
from lnattn_book.studies.majority.train import MajorityPlan

#: A quarter of the examples in batches of a quarter: as many steps, each at a quarter of the cost.
#: Stopped early; the learning rate decays as if it went on to the paper's 1000 epochs.
SHORT = MajorityPlan(examples=25_000, batch=1500, epochs=200, decay_epochs=1000)
#: Figures 1a and 1b, from the authors' scripts: three dimensions, one batch an epoch.
THREE_D = MajorityPlan(
    d_model=3, classes=10, length=30, examples=6000, epochs=10_000, evaluate_every=100
)
#: The controls' runs, and the shorter ones, at a rate that hardly decays, that decide an arm's rate
#: and scale.
CONTROLLED = replace(SHORT, epochs=50, decay_epochs=None, evaluate_every=1)
SWEPT = replace(SHORT, epochs=30, decay_epochs=100, evaluate_every=3)
#: The published comparison first, then what takes it apart.
_ARMS = ("layernorm", "authors", "rms", "projection-small", "literal")
_WIDTHS = (16, 3, 32)
_RATES = (1e-3, 3e-3, 1e-2)
_SCALES = (1.0, 8.0)
_CONTROLS = (
    "layernorm",
    "rms",
    "random-normal",
    "learnt-normal",
    "unnormalised",
    "uniform-layernorm",
    "uniform-rms",
)
_CONTROL_RATES = (3e-3, 1e-2, 3e-2)
_HIGHER_RATES = (6e-2, 1e-1)
_CONTROL_SCALES = (0.5, 1.0, 2.0)
#: What the controls take their rates and scales from.
SWEEPS = ("controls-sweep", "controls-higher")
#: Their own, so that what chose an arm's rate and scale says nothing about the ten runs with it.
_SWEEP_SEEDS = (10, 11)


def _main() -> list[Job]:
    # So ordered that a run which has to end early leaves the comparisons that matter most.
    stages = (
        (_ARMS[:3], (0, 1, 2, 3, 4)),
        (_ARMS[3:], (0, 1, 2)),
        (_ARMS[3:], (3, 4)),
        (_ARMS, (5, 6, 7, 8, 9)),
    )
    return [_job(arm, MajorityPlan(), seeds) for arms, seeds in stages for arm in arms]


def _three_d() -> list[Job]:
    return [_job(arm, THREE_D, seeds) for seeds in ((0, 1), (2, 3, 4)) for arm in _ARMS]


def _sweep() -> list[Job]:
    return [
        _job(arm, replace(SHORT, learning_rate=rate, initial_scale=scale), range(2))
        for scale in _SCALES
        for rate in _RATES
        for arm in _ARMS[:4]
    ]


def _width() -> list[Job]:
    return [
        _job(arm, replace(SHORT, d_model=d, epochs=120), range(2))
        for d in _WIDTHS
        for arm in _ARMS[:4]
    ]


def _parts() -> list[Job]:
    return [_job(arm, SHORT, range(2)) for arm in ("small-values", "small-scores")]


def _authors() -> list[Job]:
    plan = replace(SHORT, decay_epochs=10_000, scheme=AUTHORS)
    return [_job(arm, plan, range(2)) for arm in _ARMS[:2]]


def _normals() -> list[Job]:
    arms = ("layernorm", "other-normal", "three-normals", "five-normals")
    return [_job(arm, SHORT, range(5)) for arm in arms]


def _controls_sweep() -> list[Job]:
    return [
        _job(arm, replace(SWEPT, learning_rate=rate, initial_scale=scale), _SWEEP_SEEDS)
        for arm in _CONTROLS
        for rate in _CONTROL_RATES
        for scale in _CONTROL_SCALES
    ]


def _best(sweep: Experiment, arm: str) -> MajorityPlan:
    """The plan of an arm with the highest mean test accuracy on the way."""
    of_arm = (curves for curves in sweep.curves if curves.arm == arm)
    return max(of_arm, key=lambda curves: float(curves.accuracy[:, 1:].mean())).plan


def _controls_higher(folder: Path) -> list[Job]:
    """Higher rates at each arm's best scale: the first sweep's best rates were its highest."""
    sweep = Experiment.read(folder, "controls-sweep")
    scales = {arm: _best(sweep, arm).initial_scale for arm in _CONTROLS}
    return [
        _job(arm, replace(SWEPT, learning_rate=rate, initial_scale=scales[arm]), _SWEEP_SEEDS)
        for arm in _CONTROLS
        for rate in _HIGHER_RATES
    ]


def _controls(folder: Path) -> list[Job]:
    swept = [Experiment.read(folder, name).curves for name in SWEEPS]
    sweep = Experiment(sum(swept, ()), {})
    plans = {}
    for arm in _CONTROLS:
        best = _best(sweep, arm)
        plans[arm] = replace(
            CONTROLLED, learning_rate=best.learning_rate, initial_scale=best.initial_scale
        )
    return [_job(arm, plan, range(10)) for arm, plan in plans.items()]


def _job(arm: str, plan: MajorityPlan, seeds: Sequence[int]) -> Job:
    name = (
        f"{arm}, d {plan.d_model}, rate {plan.learning_rate:g}, scale {plan.initial_scale:g}, "
        f"seeds {seeds[0]} to {seeds[-1]}"
    )
    return Job(name, arm, plan, tuple(seeds))


def _planned(jobs: Callable[[], list[Job]]) -> Callable[[Path], list[Job]]:
    return lambda folder: jobs()


#: Name → what it is and its jobs, most important first, given the folder of what is frozen.
EXPERIMENTS: Mapping[str, tuple[str, Callable[[Path], list[Job]]]] = {
    "main": ("the paper's setting, five arms", _planned(_main)),
    "parts": ("which part of attention's input must be large", _planned(_parts)),
    "authors": ("the authors' schedule and way of drawing data", _planned(_authors)),
    "normals": ("keys orthogonal to another vector than 1, or to several", _planned(_normals)),
    "sweep": ("learning rates and initial scales", _planned(_sweep)),
    "three-d": ("three dimensions, as for Fig. 1a and 1b", _planned(_three_d)),
    "width": ("widths 3, 16 and 32", _planned(_width)),
    "controls-sweep": ("rates and scales of the controls", _planned(_controls_sweep)),
    "controls-higher": ("higher rates of the controls", _controls_higher),
    "controls": ("controls of equal norm, each at its best rate and scale", _controls),
}
#: Arrays of a job that are frozen; the state of its optimiser is not.
_FROZEN = ("epoch", "loss", "accuracy", "angle", "spread", "queries", "keys", "seconds")


def jobs_of(experiment: str, folder: Path | str) -> list[Job]:
    """The jobs of an experiment; an unknown name is one `ShapeError`.

    folder: of the frozen results. 'controls' reads there what its sweeps have found, and the second
    sweep what the first has; without that it is one `ResultError`.
    """
    _check(experiment)
    return EXPERIMENTS[experiment][1](Path(folder))


def _check(experiment: str) -> None:
    if experiment not in EXPERIMENTS:
        raise ShapeError(f"experiment {experiment!r} is not one of: {', '.join(EXPERIMENTS)}.")


def run_experiments(
    names: Sequence[str],
    folder: Path | str,
    *,
    progress: bool = True,
    jobs: Mapping[str, list[Job]] | None = None,
) -> list[Path]:
    """Run experiments in turn, or go on with them; freeze each after every job it has finished.

    Writes `folder/NAME.npz` and `folder/NAME.json`, whose record says how many of the planned jobs
    and runs are in it; `folder/partial/` keeps runs while an experiment is unfinished. jobs:
    other lists of jobs than the paper's. Returns the records' paths.
    """
    folder = Path(folder)
    for name in names:
        _check(name)
    bar = progress_bar(total=0, what="majority", unit=" epochs", disable=not progress)
    written = []
    for name in names:
        # Not before its turn: what one experiment plans may be what another has found.
        listed = (jobs or {}).get(name) or jobs_of(name, folder)
        bar.total += sum(job.plan.epochs * len(job.seeds) for job in listed)
        path = folder / f"{name}.json"
        if path.is_file() and read_json(path).get("jobs") == [job.record() for job in listed]:
            bar.update(sum(job.plan.epochs * len(job.seeds) for job in listed))
            written.append(path)
            continue
        partial = folder / "partial" / name
        arrays = {}
        seconds = []
        ready = []
        for job in listed:
            bar.set_description(f"{name}: {job.name}")
            outcome = run_job(job, partial, bar.update)
            arrays.update({f"{job.name}/{key}": outcome[key] for key in _FROZEN[:-1]})
            seconds.append(round(float(outcome["seconds"]), 1))
            ready.append(job)
            path = _freeze(folder, name, arrays, listed, ready, seconds)
        written.append(path)
        forget(partial, "*-seed-*.*")
    bar.close()
    return written


def _freeze(
    folder: Path,
    name: str,
    arrays: Mapping[str, np.ndarray],
    planned: Sequence[Job],
    ready: Sequence[Job],
    seconds: Sequence[float],
) -> Path:
    record = provenance(
        experiment=name,
        what=EXPERIMENTS[name][0] if name in EXPERIMENTS else "",
        planned_jobs=len(planned),
        finished_jobs=len(ready),
        planned_runs=sum(len(job.seeds) for job in planned),
        finished_runs=sum(len(job.seeds) for job in ready),
        jobs=[job.record() for job in ready],
        seconds=list(seconds),
    )
    return write_result(folder, name, arrays, record)
