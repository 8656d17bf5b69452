"""Runs of the majority task compared between arms, as B5, B6, B13 and N1 do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.majority.long_runs import Experiment

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
