"""Convex hulls, certificates, random keys and small language models (chapter 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from lnattn.selectability.decide import Selectability
from lnattn.selectability.first_layers import HeadShares
from lnattn.selectability.layers import PROPERTIES, LayerVerdicts
from lnattn.selectability.random_keys import RandomGrid
from lnattn_book.language_models import KEYS, FrozenArm, LongRuns
from lnattn_book.style import (
    BLACK,
    BLUE,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    SEQUENTIAL,
    VERMILION,
    WIDTH,
    model_name,
    ring,
)

#: One colour and mark for each arm, the same in all figures.
ARM_STYLE = {
    "full": (BLUE, "o", "LayerNorm"),
    "no-scaling": (VERMILION, "s", "without scaling"),
    "no-projection": (GREEN, "^", "without projection"),
}


def two_proofs(
    keys: Float[np.ndarray, "n 2"], found: Selectability, inside: int, corner: int
) -> Figure:
    """An unselectable key in the triangle that proves it, and a corner with its direction."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH * 1.3, 4.0), sharex=True, sharey=True, layout="compressed"
    )
    for ax in (left, right):
        _hull(ax, keys, found)
        ax.set_aspect("equal")
        ax.set_xlabel("coordinate 1")
    left.set_ylabel("coordinate 2")

    members = found.support[inside][found.support[inside] >= 0]
    triangle = keys[members]
    left.fill(*triangle.T, color=ORANGE, alpha=0.35, zorder=0)
    for member, weight in zip(members, found.weights[inside], strict=False):
        left.plot(*np.stack([keys[member], keys[inside]]).T, ":", color=BLACK, linewidth=1.2)
        left.annotate(
            f"{weight:.2f}", keys[member], (6, 5), textcoords="offset points", fontsize=FONT - 1
        )
    left.annotate("k", keys[inside], (6, -13), textcoords="offset points", style="italic")
    left.set_title("k is a mixture of three others")

    v, k = found.direction[corner], keys[corner]
    across = np.array([-v[1], v[0]])
    reach = np.ptp(keys, axis=0).max()
    line = k + np.outer([-0.45, 0.45], across) * reach
    right.plot(*line.T, "--", color=BLACK, linewidth=1.2)
    right.annotate(
        "",
        k + 0.28 * reach * v,
        k,
        arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 1.8},
    )
    right.annotate("v", k + 0.28 * reach * v, (5, 2), textcoords="offset points", style="italic")
    right.annotate("c", k, (-14, -3), textcoords="offset points", style="italic")
    right.set_title("c wins for the query v")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _hull(ax: Axes, keys: np.ndarray, found: Selectability) -> None:
    vertices = keys[ConvexHull(keys).vertices]
    ax.plot(*np.vstack([vertices, vertices[:1]]).T, color=GREY, linewidth=1)
    ax.plot(*keys[found.selectable].T, "o", color=BLUE, label="selectable")
    ax.plot(*keys[~found.selectable].T, "X", color=VERMILION, markersize=7, label="unselectable")
    ax.margins(0.16)


def grids(grid: RandomGrid) -> Figure:
    """Both readings of Fig. 1c, side by side."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH * 1.3, 3.6), sharey=True)
    titles = ("mean share of\nunselectable keys", "probability that\nany is unselectable")
    for ax, title, values in zip(axes, titles, (grid.fraction, grid.probability), strict=True):
        mesh = ax.pcolormesh(
            grid.widths, grid.counts, values, cmap=SEQUENTIAL, vmin=0, vmax=1, rasterized=True
        )
        ax.set_title(title)
        ax.set_xlabel("width d")
        ax.set_xticks(grid.widths[::3])
        ring(ax, 8, grid.counts[-1])
    axes[0].set_ylabel("number of keys n")
    figure.colorbar(mesh, ax=axes)
    return figure


def _labels(ax: Axes) -> list[str]:
    return ax.get_legend_handles_labels()[1]


def long_runs(found: LongRuns) -> Figure:
    """Held-out loss, and unselectable keys of layers and of heads, against the tokens seen."""
    figure, (loss, keys) = plt.subplots(2, 1, figsize=(WIDTH, 7.2), sharex=True)
    places: tuple[tuple[str, str, int | slice], ...] = (
        ("in the layer", "-", KEYS),
        ("in a head", ":", slice(KEYS + 1, None)),
    )
    for arm, (colour, mark, label) in ARM_STYLE.items():
        held_out = found.losses[found.arm(arm), ..., 1]
        for seed in np.flatnonzero(np.isfinite(held_out[:, -1])):
            shown = None if label in _labels(loss) else label
            loss.plot(found.tokens, held_out[seed], color=colour, linewidth=1.2, label=shown)
            for _, line, place in places:
                shares = 100 * found.shares(arm, place)[seed].mean(axis=1)
                keys.plot(found.kept, shares, line, color=colour, marker=mark, markersize=4)
    for title, line, _ in places:
        keys.plot([], [], line, color=BLACK, label=title)
    for ax in (loss, keys):
        ax.set_xscale("log")
        ax.get_xaxis().set_major_formatter("{x:g}")
    loss.set_ylabel("held-out loss (nats per token)")
    keys.set(xlabel="million tokens seen", ylabel="unselectable keys (%)", ylim=(-3, 103))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def shares_by_layer(arms: Sequence[FrozenArm], reported: Mapping[str, Sequence[float]]) -> Figure:
    """Unselectable keys of each layer, a line a seed, and what is reported (Table 1)."""
    figure, ax = plt.subplots(figsize=(WIDTH, 4.0))
    layers = np.arange(1, 1 + len(arms[0].share(KEYS)))
    for arm, (colour, mark, label) in ARM_STYLE.items():
        runs = [100 * one.share(KEYS) for one in arms if one.arm == arm]
        ax.plot(layers, np.array(runs).T, color=colour, marker=mark, linewidth=1)
        height = np.mean(runs) + (5 if arm == "full" else -6 if arm == "no-projection" else 8)
        ax.annotate(label, (layers[-2] + 0.5, height), color=colour, ha="center", va="center")
    for name, values in reported.items():
        ax.plot(layers, values, color=BLACK, marker="D", linestyle="--")
        ax.annotate(name, (layers[1], values[1] - 6), ha="center", va="center")
    ax.set_xticks(layers)
    ax.set_ylim(-12, 70)
    ax.set_xlabel("layer")
    ax.set_ylabel("unselectable keys (%)")
    return figure


def shares_by_width(arms: Sequence[FrozenArm]) -> Figure:
    """Unselectable keys against the width: of the whole layer, and of single heads."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH * 1.3, 3.6), sharey=True)
    places: tuple[tuple[str, int | slice], ...] = (
        ("in the layer, $R^d$", KEYS),
        ("in a head, $R^{d/4}$", slice(KEYS + 1, None)),
    )
    for ax, (title, place) in zip(axes, places, strict=True):
        for arm in ("full", "no-scaling"):
            colour, mark, _ = ARM_STYLE[arm]
            runs = [one for one in arms if one.arm == arm]
            widths = sorted({one.d for one in runs})
            means = [100 * np.mean([o.share(place) for o in runs if o.d == d]) for d in widths]
            ax.plot(widths, means, color=colour, marker=mark)
            if arm == "full" and place != KEYS:
                ring(ax, widths[0], means[0])
        ax.set_xscale("log", base=2)
        ax.set_xticks(sorted({one.d for one in arms}))
        ax.get_xaxis().set_major_formatter("{x:g}")
        ax.set_xlabel("width d")
        ax.set_title(title)
    for arm, where in (("no-scaling", (10, 38)), ("full", (8, 4))):
        axes[0].annotate(ARM_STYLE[arm][2], where, color=ARM_STYLE[arm][0])
    axes[1].annotate("without scaling", (26, 55), color=ARM_STYLE["no-scaling"][0])
    axes[1].annotate("LayerNorm", (11, 40), color=ARM_STYLE["full"][0])
    axes[0].set_ylabel("unselectable keys (%)")
    return figure


def in_fewer_dimensions(models: Mapping[str, HeadShares]) -> Figure:
    """Share of unselectable keys against the number of principal components kept, head by head."""
    figure, axes = plt.subplots(
        len(models), 1, figsize=(WIDTH, 0.8 + 1.9 * len(models)), squeeze=False, sharex=True
    )
    for ax, (title, one) in zip(axes.flat, models.items(), strict=True):
        for head, values in enumerate(one.fewer):
            ax.plot(one.dims, 100 * values, color=BLUE, alpha=0.5, linewidth=1.2)
            ax.lines[-1].set_label(None if head else "each head")
        ax.plot(one.dims, 100 * one.normal, "--", color=BLACK, label="normal keys")
        ax.set_xscale("log", base=2)
        ax.set_ylim(-4, 104)
        ax.set_title(f"{title}, {one.lengths[-1]} keys")
    ticks = sorted({2 << k for one in models.values() for k in range(6) if 2 << k <= one.dims[-1]})
    axes[-1, 0].set_xticks(ticks)
    axes[-1, 0].get_xaxis().set_major_formatter("{x:g}")
    axes[-1, 0].set_xlabel("principal components kept")
    figure.supylabel("unselectable keys (%)", fontsize=FONT)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def in_all_layers(models: Mapping[str, LayerVerdicts]) -> Figure:
    """Keys that a quarter of a head's dimensions loses: by layer, by position, what they share."""
    figure, (layers, places, common) = plt.subplots(3, 1, figsize=(WIDTH, 9.0))
    step = 0.7 / len(models)
    for number, (name, one) in enumerate(models.items()):
        colour, shift = PALETTE[number], (number - (len(models) - 1) / 2) * step
        for layer, heads in enumerate(100 * one.by_head(1)):
            layers.plot(np.full(len(heads), layer + shift), heads, ".", color=colour, alpha=0.7)
        by_position = 100 * one.by_position(1).mean(axis=0)
        middles = (np.arange(len(by_position)) + 0.5) / len(by_position)
        places.plot(middles, by_position, marker=".", color=colour, label=model_name(name))
        for row, (mean, low, high) in enumerate(one.common(1)):
            common.plot([low, high], [row + shift] * 2, color=colour)
            common.plot(mean, row + shift, ".", color=colour)
    layers.set(xlabel="layer", ylabel="unselectable in a head (%)")
    layers.xaxis.get_major_locator().set_params(integer=True)
    places.set(xlabel="place in the window", ylabel="unselectable (%)", xlim=(0, 1))
    places.set_ylim(bottom=0)
    common.axvline(0.5, color=GREY, linewidth=0.8, zorder=0)
    common.set(xlabel="AUROC: has more of it", xlim=(0, 1), ylim=(len(PROPERTIES) - 0.5, -0.5))
    common.set_yticks(range(len(PROPERTIES)), PROPERTIES)
    figure.legend(loc="outside upper center", ncols=len(models))
    return figure
