"""Curves of the majority experiment, and its keys and queries in space (chapter 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from lnattn_book.chapters.majority import NAMES, has_projection
from lnattn_book.page.style import (
    BLACK,
    BROWN,
    GREY,
    OLIVE,
    ROSE,
    SMALL,
    VIOLET,
    WIDTH,
    legend,
    space,
)
from lnattn_book.page.style import ring as encircle
from lnattn_book.studies.majority.long_runs import Experiment, slowdown

#: Colour and line of every arm: solid with projection, dashed without; violet and olive norm √d.
LOOKS: Mapping[str, tuple[str, str]] = {
    "layernorm": (VIOLET, "-"),
    "rms": (OLIVE, "--"),
    "authors": (ROSE, "--"),
    "projection-small": (BROWN, "-"),
    "literal": (GREY, ":"),
    "small-scores": (GREY, "-."),
    "small-values": (BLACK, "-."),
    "random-normal": (ROSE, "-."),
    "learnt-normal": (BROWN, "-."),
    "unnormalised": (BLACK, ":"),
    "uniform-layernorm": (VIOLET, ":"),
    "uniform-rms": (OLIVE, ":"),
}
_LABELS = {
    "loss": "training loss\n(nats a position)",
    "accuracy": "test accuracy",
    "angle": "mean angle of\nqueries to 1 (degrees)",
    "spread": "spread of a\nquery's scores",
}


def learning_curves(
    experiment: Experiment,
    measures: Sequence[str] = ("loss", "accuracy", "angle"),
    live: Mapping[str, Mapping[str, np.ndarray]] | None = None,
) -> Figure:
    """One panel a measure: medians over seeds, with bands from the lowest to the highest run.

    live: arm → arrays `epoch` and the measures, of runs made by the page itself: crosses in the
    colour of their arm.
    """
    size = (WIDTH, 1.0 + 2.1 * len(measures))
    figure, axes = plt.subplots(len(measures), 1, figsize=size, sharex=True, squeeze=False)
    for ax, measure in zip(axes[:, 0], measures, strict=True):
        for curves in experiment.curves:
            colour, line = LOOKS[curves.arm]
            runs = getattr(curves, measure)  # [seed epoch]
            ax.fill_between(curves.epoch, runs.min(0), runs.max(0), color=colour, alpha=0.18, lw=0)
            ax.plot(
                curves.epoch, np.median(runs, axis=0), line, color=colour, label=NAMES[curves.arm]
            )
        for name, run in (live or {}).items():
            curve = np.median(run[measure], axis=0)
            ax.plot(run["epoch"], curve, "x", color=LOOKS[name][0], ms=6, mew=1.6, zorder=4)
        ax.set_ylabel(_LABELS[measure])
        if measure == "loss":
            ax.set_yscale("log")
    # The beginning is where the arms differ: linear up to epoch 10, logarithmic from there on.
    axes[-1, 0].set_xscale("symlog", linthresh=10)
    axes[-1, 0].set_xlabel("epoch")
    legend(figure, "upper left", 1)
    return figure


def ratio_curves(
    experiment: Experiment,
    pairs: Mapping[str, tuple[str, str]],
    accuracies: Sequence[float],
    losses: Sequence[float],
    ring: float,
) -> Figure:
    """How many times more epochs the slow arm of each pair needs, against the level to be reached.

    pairs: title → (slow arm, fast arm); ring: the accuracy at which the first is ringed. Bands:
    95 % bootstrap intervals over seeds; where they or the ratio itself are not bounded, because
    runs never arrive, the curve or band ends.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.7), sharey=True)
    looks = ((BLACK, "-"), (BLACK, ":"), (GREY, "-"), (GREY, "--"))
    for (title, (slow, fast)), (colour, line) in zip(pairs.items(), looks, strict=True):
        for ax, kind, levels in ((left, "accuracy", accuracies), (right, "loss", losses)):
            estimates = [slowdown(experiment, slow, fast, **{kind: level}) for level in levels]
            value, low, high = np.array(
                [
                    [np.nan] * 3
                    if estimate is None
                    else [estimate.value, estimate.low, estimate.high]
                    for estimate in estimates
                ]
            ).T
            high = np.where(np.isinf(high), np.nan, high)
            ax.fill_between(levels, low, high, color=colour, alpha=0.15, lw=0)
            ax.plot(levels, value, line, color=colour, lw=1.7, label=title)
    at = slowdown(experiment, *next(iter(pairs.values())), accuracy=ring)
    encircle(left, ring, np.nan if at is None else at.value)
    for ax in (left, right):
        ax.axhline(1, color=GREY, lw=0.6, zorder=0)
        ax.set_yscale("log")
    left.set_yticks([0.7, 1, 2, 3, 5], labels=["0.7", "1", "2", "3", "5"])
    left.minorticks_off()
    right.invert_xaxis()
    left.set(xlabel="test accuracy to be reached", ylabel="epochs, slow arm over fast arm")
    right.set_xlabel("training loss to be reached")
    legend(figure, "upper left")
    return figure


def endings(experiment: Experiment, ringed: Sequence[str] = ()) -> Figure:
    """Accuracy at the end: a row of dots an arm, one a run, with a bar at the median.

    Arms with a projection are filled; the medians of `ringed` are ringed.
    """
    ends = {name: 100 * experiment.of(name).accuracy[:, -1] for name in experiment.arms}
    arms = sorted(ends, key=lambda name: -np.median(ends[name]))
    medians = [np.median(ends[name]) for name in arms]
    figure, ax = plt.subplots(figsize=(WIDTH, 0.9 + 0.34 * len(arms)))
    sns.stripplot(ends, order=arms, orient="h", jitter=False, alpha=0.75, linewidth=1)
    for dots, name in zip(ax.collections, arms, strict=True):
        colour = LOOKS[name][0]
        dots.set(edgecolor=colour, facecolor=colour if has_projection(name) else "white")
    ax.plot(medians, arms, "|", color=BLACK, ms=13, mew=2)
    for name in ringed:
        encircle(ax, medians[arms.index(name)], arms.index(name), 17)
    ax.set_yticks(range(len(arms)), [NAMES[name] for name in arms])
    ax.set_xlabel("test accuracy at the end, % right")
    ax.grid(axis="x")
    return figure


def keys_and_queries(experiment: Experiment, runs: Sequence[tuple[str, int]]) -> Figure:
    """Trained keys and directions of the queries of every class in three dimensions (Fig. 1a, b).

    runs: arm and number of the run, one panel each. Queries differ a hundredfold in length between
    arms, so each is drawn at the length of the keys' mean; the keys keep their lengths.
    """
    rows = -(-len(runs) // 2)
    figure = plt.figure(figsize=(WIDTH, 0.6 + 2.75 * rows))
    for place, (name, run) in enumerate(runs):
        curves = experiment.of(name)
        keys = curves.keys[run]
        queries = curves.queries[run]
        size = float(np.linalg.norm(keys, axis=1).mean())
        axes: Axes3D = figure.add_subplot(rows, 2, place + 1, projection="3d")
        space(axes, size)
        directions = queries / np.linalg.norm(queries, axis=1, keepdims=True) * size
        axes.plot(*_rays(directions), color=BLACK, lw=1.2, label="queries (direction)")
        axes.plot(*_rays(keys), color=ROSE, lw=1.0, label="keys")
        axes.scatter(*keys.T, color=ROSE, s=16, depthshade=False)
        axes.set_title(f"{NAMES[name]}\nseed {curves.seeds[run]}", fontsize=SMALL)
        axes.view_init(elev=16, azim=20)
    legend(figure, "lower center")
    return figure


def _rays(ends: np.ndarray) -> np.ndarray:
    """Coordinates [3, points] of lines from the origin to each end, with gaps between them."""
    rays = np.full((len(ends), 3, 3), np.nan)
    rays[:, 0] = 0.0
    rays[:, 1] = ends
    return rays.reshape(-1, 3).T
