"""Curves of the majority experiment, and its keys and queries in space (chapter 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from lnattn.majority.results import Curves, Experiment, epochs_to, slowdown
from lnattn_book.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SMALL,
    VERMILION,
    WIDTH,
)

#: Colour and line of every arm: solid with projection, dashed without; blue and green norm √d.
LOOKS: Mapping[str, tuple[str, str]] = {
    "layernorm": (BLUE, "-"),
    "rms": (GREEN, "--"),
    "authors": (VERMILION, "--"),
    "projection-small": (ORANGE, "-"),
    "literal": (PURPLE, ":"),
    "small-scores": (GREY, "-."),
    "small-values": (BLACK, "-."),
    "random-normal": (ORANGE, "-."),
    "learnt-normal": (PURPLE, "-."),
    "unnormalised": (VERMILION, ":"),
    "uniform-layernorm": (BLUE, ":"),
    "uniform-rms": (GREEN, ":"),
}
#: Short names for legends.
SHORT: Mapping[str, str] = {
    "layernorm": "projection, √d (LayerNorm)",
    "rms": "no projection, √d (RMSNorm)",
    "authors": "no projection, 1/√d (code)",
    "projection-small": "projection, 1/√d",
    "literal": "no projection, x/σ(x)",
    "small-scores": "no proj., √d, but q and k 1/√d",
    "small-values": "no proj., √d, but v 1/√d",
    "random-normal": "along a random vector",
    "learnt-normal": "along a learnt vector",
    "unnormalised": "no normalisation",
    "uniform-layernorm": "LayerNorm, uniform",
    "uniform-rms": "RMSNorm, uniform",
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
    *,
    arms: Sequence[str] | None = None,
    live: Mapping[str, Mapping[str, np.ndarray]] | None = None,
) -> Figure:
    """One panel a measure: medians over seeds, with bands from the lowest to the highest run.

    live: arm → arrays `epoch` and the measures, of runs made by the page itself, drawn in black.
    """
    figure, axes = plt.subplots(
        len(measures), 1, figsize=(WIDTH, 1.0 + 2.1 * len(measures)), sharex=True, squeeze=False
    )
    for ax, measure in zip(axes[:, 0], measures, strict=True):
        for name in arms or experiment.arms:
            _band(ax, experiment.of(name), measure)
        for number, (name, found) in enumerate((live or {}).items()):
            _, line = LOOKS[name]
            ax.plot(
                found["epoch"],
                np.median(found[measure], axis=0),
                line,
                color=BLACK,
                lw=1.2,
                label="run by this page" if number == 0 else None,
            )
        ax.set_ylabel(_LABELS[measure])
        if measure == "loss":
            ax.set_yscale("log")
    # The beginning is where the arms differ: linear up to epoch 10, logarithmic from there on.
    axes[-1, 0].set_xscale("symlog", linthresh=10)
    axes[-1, 0].set_xlabel("epoch")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=1)
    return figure


def _band(ax: Axes, curves: Curves, measure: str) -> None:
    colour, line = LOOKS[curves.arm]
    values = getattr(curves, measure)
    sns.lineplot(
        x=np.tile(curves.epoch, len(values)),
        y=values.ravel(),
        estimator="median",
        errorbar=("pi", 100),
        err_kws={"alpha": 0.18, "lw": 0},
        color=colour,
        ls=line,
        lw=1.7,
        label=SHORT[curves.arm],
        legend=False,
        ax=ax,
    )


def ratio_curves(
    experiment: Experiment,
    pairs: Mapping[str, tuple[str, str]],
    accuracies: Sequence[float],
    losses: Sequence[float],
) -> Figure:
    """How many times more epochs the slow arm of each pair needs, against the level to be reached.

    pairs: title → (slow arm, fast arm). Bands: 95 % bootstrap intervals over seeds; where they or
    the ratio itself are not bounded, because runs never arrive, the curve or band ends.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.7), sharey=True)
    looks = ((VERMILION, "-"), (BLUE, "-"), (ORANGE, "--"), (GREEN, ":"))
    for (title, (slow, fast)), (colour, line) in zip(pairs.items(), looks, strict=False):
        for ax, kind, levels in ((left, "accuracy", accuracies), (right, "loss", losses)):
            found = [slowdown(experiment, slow, fast, **{kind: level}) for level in levels]
            value, low, high = np.array(
                [[np.nan] * 3 if one is None else [one.value, one.low, one.high] for one in found]
            ).T
            high = np.where(np.isinf(high), np.nan, high)
            ax.fill_between(levels, low, high, color=colour, alpha=0.2, lw=0)
            ax.plot(levels, value, line, color=colour, lw=1.7, label=title)
    for ax in (left, right):
        ax.axhline(1, color=GREY, lw=1)
        ax.set_yscale("log")
    left.set_yticks([0.7, 1, 2, 3, 5], labels=["0.7", "1", "2", "3", "5"])
    left.minorticks_off()
    right.invert_xaxis()
    left.set(xlabel="test accuracy to be reached", ylabel="epochs, slow arm over fast arm")
    right.set_xlabel("training loss to be reached")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left")
    return figure


def keys_and_queries(
    experiment: Experiment,
    runs: Sequence[tuple[str, int]],
    view: tuple[float, float] = (16, 20),
) -> Figure:
    """Trained keys and directions of the queries of every class in three dimensions (Fig. 1a, b).

    runs: arm and number of the run, one panel each.

    Queries differ a hundredfold in length between arms, so each is drawn at the length of the keys'
    mean; the keys keep their lengths.
    """
    rows = -(-len(runs) // 2)
    figure = plt.figure(figsize=(WIDTH, 0.6 + 2.75 * rows))
    for place, (name, run) in enumerate(runs):
        curves = experiment.of(name)
        keys, queries = curves.keys[run], curves.queries[run]
        size = float(np.linalg.norm(keys, axis=1).mean())
        axes: Axes3D = figure.add_subplot(rows, 2, place + 1, projection="3d")
        _plane_and_ones(axes, size)
        directions = queries / np.linalg.norm(queries, axis=1, keepdims=True) * size
        axes.plot(*_rays(directions), color=BLACK, lw=1.2, label="queries (direction)")
        axes.plot(*_rays(keys), color=VERMILION, lw=1.0, label="keys")
        axes.scatter(*keys.T, color=VERMILION, s=16, depthshade=False)
        axes.set_title(f"{SHORT[name].split(' (')[0]}\nseed {curves.seeds[run]}", fontsize=SMALL)
        axes.view_init(elev=view[0], azim=view[1])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _rays(ends: np.ndarray) -> np.ndarray:
    """Coordinates [3, points] of lines from the origin to each end, with gaps between them."""
    rays = np.full((len(ends), 3, 3), np.nan)
    rays[:, 0], rays[:, 1] = 0.0, ends
    return rays.reshape(-1, 3).T


def _plane_and_ones(axes: Axes3D, size: float) -> None:
    """The plane orthogonal to 1, the line through 1, and quiet axes that reach to `size`."""
    limit = 1.15 * size
    a, b = np.meshgrid([-size, size], [-size, size])
    u, w = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    plane = a[..., None] * u + b[..., None] * w
    axes.plot_surface(*np.moveaxis(plane, -1, 0), color=GREY, alpha=0.2, linewidth=0)
    end = 1.3 * size / np.sqrt(3)
    axes.plot([-end, end], [-end, end], [-end, end], color=BLUE, lw=1.4, ls="--")
    axes.text(end * 1.1, end * 1.1, end * 1.1, "1", color=BLUE, fontweight="bold")
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
    axes.set(xticks=[], yticks=[], zticks=[])
    axes.set_box_aspect((1, 1, 1))


def arrival(
    panels: Mapping[str, Sequence[Curves]],
    *,
    accuracy: float | Sequence[float],
    columns: int = 2,
    epochs: tuple[int, int] = (8, 500),
) -> Figure:
    """Epochs to a test accuracy: a row of dots for every arm, one dot a run, one panel a setting.

    accuracy: one for all panels, or one for each; epochs: the ends of the axis. Runs that never
    arrive are drawn as crosses at the right edge.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    longest = max(map(len, panels.values()))
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(WIDTH, 0.9 + max(1.45, 0.3 * longest) * rows),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for ax in grid.flat[len(panels) :]:
        ax.set_visible(False)
    levels = np.broadcast_to(accuracy, len(panels)).tolist()
    for ax, (title, listed), level in zip(grid.flat, panels.items(), levels, strict=False):
        for row, curves in enumerate(listed):
            colour, _ = LOOKS[curves.arm]
            found = epochs_to(curves, accuracy=level)
            late = int(curves.epoch[-1]) * 1.35
            arrived = np.isfinite(found)
            ax.plot(found[arrived], np.full(arrived.sum(), row), "o", color=colour, alpha=0.75)
            ax.plot(
                np.full((~arrived).sum(), late), np.full((~arrived).sum(), row), "x", color=colour
            )
        ax.set_title(title, fontsize=SMALL)
        ax.set_xscale("log")
        ax.set_xlim(*epochs)
        ticks = [tick for tick in (1, 3, 10, 30, 100, 300) if epochs[0] <= tick <= epochs[1]]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_yticks(range(len(listed)), [SHORT[curves.arm].split(" (")[0] for curves in listed])
        ax.set_ylim(len(listed) - 0.5, -0.5)
        ax.grid(axis="x")
    different = len(set(levels)) > 1
    what = "the test accuracy above" if different else f"{levels[0]:.0%} test accuracy"
    figure.supxlabel(f"epochs to {what} (×: not reached)", fontsize=11)
    return figure
