"""Runs of the majority task compared between arms, as B5, B6, B13 and N1 do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.majority.long_runs import Curves, Experiment

#: What curves have of each run.
OF_RUNS = ("loss", "accuracy", "angle", "spread", "queries", "keys")
#: The arm with the projection; claims about the projection set another beside it.
PROJECTED = "layernorm"


def of_arms(projected: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """Mean over runs [run], with its interval, in the arm with projection and in the other."""
    return {
        "with": Interval(*mean_and_interval(projected)),
        "without": Interval(*mean_and_interval(other)),
        "runs": min(len(projected), len(other)),
    }


def end_lead(runs: Experiment, arm: str, other: str) -> tuple[float, float, float]:
    """How much more an arm gets right at the end than another: mean over seeds, and interval."""
    curves = runs.of(arm)
    others = runs.of(other)
    common = [seed for seed in curves.seeds if seed in others.seeds]
    right = curves.accuracy[[curves.seeds.index(seed) for seed in common], -1]
    than = others.accuracy[[others.seeds.index(seed) for seed in common], -1]
    return mean_and_interval(np.subtract(right, than, dtype=np.float64))


def measure_leads(runs: Experiment, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """By how many points arms end better than others; pairs: the one that should be worse first."""
    leads = {f"{better} less {worse}": end_lead(runs, better, worse) for worse, better in pairs}
    seeds = min(len(runs.of(arm).seeds) for pair in pairs for arm in pair)
    points = Interval.rows(100 * np.array(list(leads.values()))).bonferroni(seeds)
    measures = {"lead": points, "seeds": seeds, "of": ", ".join(leads)}
    return measures | {name: mean for name, (mean, *_) in leads.items()}


# ---- What learnt nothing -------------------------------------------------------------------------


def exchanged(
    generator: np.random.Generator, runs: Experiment, other: str = "rms"
) -> tuple[Experiment, str]:
    """The arm with projection and another, exchanged with probability one half in each seed."""
    curves = [runs.of(PROJECTED), runs.of(other)]
    common = [seed for seed in curves[0].seeds if seed in curves[1].seeds]
    ours = [curves[0].seeds.index(seed) for seed in common]
    theirs = [curves[1].seeds.index(seed) for seed in common]
    swap = generator.random(len(common)) < 0.5

    def dealt(name: str) -> tuple[np.ndarray, np.ndarray]:
        mine = getattr(curves[0], name)[ours]
        other = getattr(curves[1], name)[theirs]
        chosen = swap.reshape(-1, *[1] * (mine.ndim - 1))
        return np.where(chosen, other, mine), np.where(chosen, mine, other)

    both = {name: dealt(name) for name in OF_RUNS}
    parts = []
    for side, arm in enumerate(curves):
        runs_of_side: dict[str, Any] = {name: arrays[side] for name, arrays in both.items()}
        parts.append(replace(arm, seeds=tuple(common), **runs_of_side))
    return (replace(runs, curves=tuple(parts)), other)


def turned_back(
    generator: np.random.Generator, runs: Experiment, other: str
) -> tuple[Experiment, str]:
    """Each run forwards or backwards, with probability one half."""

    def dealt(arm: Curves) -> Curves:
        forwards = generator.random(len(arm.angle))[:, None] < 0.5
        return replace(arm, angle=np.where(forwards, arm.angle, arm.angle[:, ::-1]))

    return replace(runs, curves=tuple(dealt(runs.of(arm)) for arm in (PROJECTED, other))), other


def random_directions(
    generator: np.random.Generator, runs: Experiment, other: str
) -> tuple[Experiment, str]:
    """Queries in random directions, in either arm."""

    def dealt(arm: Curves) -> Curves:
        return replace(arm, queries=generator.standard_normal(arm.queries.shape))

    return replace(runs, curves=tuple(dealt(runs.of(arm)) for arm in (PROJECTED, other))), other


ARMS_EXCHANGED = NullModel("the two arms exchanged, seed by seed", deal=exchanged, draws=40)
