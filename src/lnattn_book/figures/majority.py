"""Curves of the majority experiment, and its keys and queries in space (chapter 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from lnattn.majority.model import ARMS
from lnattn.majority.results import Curves, Experiment, epochs_to, slowdown
from lnattn.majority.train import MajorityPlan
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
            found = [slowdown(experiment, slow, fast, **{kind: level}) for level in levels]
            value, low, high = np.array(
                [[np.nan] * 3 if one is None else [one.value, one.low, one.high] for one in found]
            ).T
            high = np.where(np.isinf(high), np.nan, high)
            ax.fill_between(levels, low, high, color=colour, alpha=0.15, lw=0)
            ax.plot(levels, value, line, color=colour, lw=1.7, label=title)
    at = slowdown(experiment, *next(iter(pairs.values())), accuracy=ring)
    left.plot(
        ring, np.nan if at is None else at.value, "o", mfc="none", mec=VERMILION, ms=14, mew=1.6
    )
    for ax in (left, right):
        ax.axhline(1, color=GREY, lw=0.6, zorder=0)
        ax.set_yscale("log")
    left.set_yticks([0.7, 1, 2, 3, 5], labels=["0.7", "1", "2", "3", "5"])
    left.minorticks_off()
    right.invert_xaxis()
    left.set(xlabel="test accuracy to be reached", ylabel="epochs, slow arm over fast arm")
    right.set_xlabel("training loss to be reached")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def endings(experiment: Experiment, ringed: Sequence[str] = ()) -> Figure:
    """Accuracy at the end: a row of dots an arm, one a run, with a bar at the median.

    Arms with a projection are filled; the medians of `ringed` are ringed.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 0.9 + 0.34 * len(experiment.arms)))
    ordered = sorted(experiment.arms, key=lambda name: -np.median(_end(experiment, name)))
    for row, name in enumerate(ordered):
        colour, _ = LOOKS[name]
        end, middle = _end(experiment, name), np.median(_end(experiment, name))
        fill = colour if ARMS[name].project or ARMS[name].direction != "none" else "white"
        ax.plot(end, np.full(len(end), row), "o", color=colour, mfc=fill, alpha=0.75)
        ax.plot([middle] * 2, [row - 0.3, row + 0.3], color=BLACK, lw=2)
        if name in ringed:
            ax.plot(middle, row, "o", mfc="none", mec=VERMILION, ms=17, mew=1.6)
    ax.set_yticks(range(len(ordered)), [SHORT[name] for name in ordered])
    ax.set_ylim(len(ordered) - 0.4, -0.6)
    ax.set_xlabel("test accuracy at the end, % right")
    ax.grid(axis="x")
    return figure


def _end(experiment: Experiment, name: str) -> np.ndarray:
    return 100 * experiment.of(name).accuracy[:, -1]


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
    against: Callable[[MajorityPlan], float],
    label: str,
    accuracy: float,
) -> Figure:
    """Epochs to a test accuracy against a setting: a dot a run, a line through an arm's medians.

    A cross at the top is a run that never arrives.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(WIDTH, 3.4), sharey=True, squeeze=False, sharex=True
    )
    for ax, (title, listed) in zip(axes[0], panels.items(), strict=True):
        for name in dict.fromkeys(curves.arm for curves in listed):
            colour, line = LOOKS[name]
            mine = sorted((c for c in listed if c.arm == name), key=lambda c: against(c.plan))
            places = [against(curves.plan) for curves in mine]
            found = [epochs_to(curves, accuracy=accuracy) for curves in mine]
            late = max(int(curves.epoch[-1]) for curves in mine) * 1.35
            for x, one in zip(places, found, strict=True):
                arrived = one[np.isfinite(one)]
                ax.plot([x] * len(arrived), arrived, "o", color=colour, ms=4, alpha=0.75)
                missing = len(one) - len(arrived)
                ax.plot([x] * missing, [late] * missing, "x", color=colour)
            middle = [np.median(one) if np.isfinite(one).all() else np.nan for one in found]
            ax.plot(places, middle, line, color=colour, lw=1.4, label=SHORT[name])
        ax.set(title=title, xscale="log", yscale="log")
        ticks = sorted({against(curves.plan) for curves in listed})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
        ax.minorticks_off()
    figure.supxlabel(label, fontsize=11)
    figure.supylabel(f"epochs to {accuracy:.0%} right", fontsize=11)
    known = {
        text: handle
        for ax in axes[0]
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(known.values(), known.keys(), loc="outside upper left", ncols=2)
    return figure
