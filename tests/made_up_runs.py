"""Made-up runs of the majority task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lnattn_book.studies.majority.long_runs import Curves, Experiment
from lnattn_book.studies.majority.train import MajorityPlan


def curves_with(accuracy: Any) -> Curves:
    values = np.array(accuracy, dtype=np.float32)
    points = np.zeros_like(values)
    runs, size = values.shape
    return Curves(
        arm="rms",
        plan=MajorityPlan(),
        seeds=tuple(range(runs)),
        epoch=np.arange(size) * 5,
        loss=1 - values,
        accuracy=values,
        angle=points,
        spread=points,
        queries=np.zeros((runs, 2, 3)),
        keys=np.zeros((runs, 2, 3)),
    )


def paced(arm: str, pace: list[float], fall=(30.0,), tilt=(10.0,), stops_at: float = 1.0) -> Curves:
    """Runs whose accuracy is 1 − exp(−epoch / pace), whose loss is one minus that, and so on."""
    share, runs = np.linspace(0, 1, 1001), len(pace)
    made = curves_with(np.minimum(1 - np.exp(-1000 * share / np.array(pace)[:, None]), stops_at))
    # A direction that is `tilt` away from 1, towards a vector of the plane.
    tilts = np.radians(np.resize(np.array(tilt, dtype=float), runs))[:, None]
    plane = np.array([1, -1, 0]) / np.sqrt(2)
    queries = np.cos(tilts) * np.ones(3) / np.sqrt(3) + np.sin(tilts) * plane
    angle = 60 - np.resize(np.array(fall, dtype=float), runs)[:, None] * share
    return replace(made, arm=arm, angle=angle, queries=np.repeat(queries[:, None], 2, axis=1))


def beside(pace: list[float] = [100.0] * 6, **other: Any) -> tuple[Experiment, str]:
    """An arm with projection at pace 100, and one without, named rms, at another pace."""
    own = {name: other.pop(name) for name in ("fall", "tilt") if name in other}
    without = {name.removesuffix("_without"): value for name, value in other.items()}
    arms = (paced("layernorm", [100.0] * len(pace), **own), paced("rms", pace, **without))
    return Experiment(arms, {}), "rms"


def ends(noise: float = 0.001, runs: int = 10, **less: Any) -> tuple[Experiment]:
    """Arms by name, with _ for -, and how much less each gets right at the end."""
    wiggle = noise * np.random.default_rng(1).normal(size=(len(less), runs))
    made = []
    for (name, by), own in zip(less.items(), wiggle, strict=True):
        one = paced(name.replace("_", "-"), [100.0] * runs)
        right = one.accuracy - 0.3 - np.reshape(by, (-1, 1)) + own[:, None]
        made.append(replace(one, accuracy=right))
    return (Experiment(tuple(made), {}),)


def normals(other: float, several: float, **more: Any) -> tuple[Experiment, str, list[str]]:
    runs = ends(layernorm=0.0, other_normal=-other, three_normals=-several, **more)
    return *runs, "other-normal", ["three-normals"]
