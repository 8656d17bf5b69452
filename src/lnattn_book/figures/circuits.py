"""Composition scores, heads, and predictions taken apart (chapter 04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from lnattn_book.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SEQUENTIAL,
    SMALL,
    VERMILION,
    WIDTH,
)


def score_distributions(
    samples: Mapping[str, np.ndarray], baseline: float, marked: Mapping[str, float]
) -> Figure:
    """Histograms of composition scores (log counts as densities), as outlines.

    samples: scores by name; baseline: 1/√d_model; marked: single scores with a label.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.9))
    highest = max(float(np.nanmax(values)) for values in samples.values())
    bins = np.linspace(0, highest * 1.02, 90)
    looks = [(BLUE, "-"), (ORANGE, "--"), (GREY, ":")]
    for (name, values), (colour, line) in zip(samples.items(), looks, strict=False):
        sns.histplot(
            values.ravel(), bins=bins, stat="density", element="step", fill=False, color=colour,
            ls=line, lw=1.8, label=name, ax=ax,
        )  # fmt: skip
    ax.axvline(baseline, color=BLACK, lw=1)
    ax.annotate(
        r"$1/\sqrt{d}$", (baseline, 0.93), xycoords=("data", "axes fraction"),
        xytext=(5, 0), textcoords="offset points", fontsize=SMALL,
    )  # fmt: skip
    ax.set_yscale("log")
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top * 6)
    for index, (name, score) in enumerate(sorted(marked.items(), key=lambda item: item[1])):
        height = 0.34 + 0.09 * (index % 5)
        across = ax.get_xaxis_transform()
        ax.plot([score, score], [0, height], transform=across, color=VERMILION, lw=0.9)
        ax.text(
            score, height, f"{name} ", transform=across, ha="right", va="center", fontsize=SMALL
        )
    ax.set(xlabel="composition score", ylabel="density (log scale)")
    figure.legend(loc="outside upper center", ncols=1)
    return figure


def readers_of(scores: np.ndarray, writer: str, first_layer: int, marks: Sequence[str]) -> Figure:
    """Scores of one head as writer with every head of the later layers, layer by layer.

    scores: [layer head], rows from `first_layer` on; marks: readers 'layer.head' to frame.
    """
    layers, heads = scores.shape
    figure, ax = plt.subplots(figsize=(WIDTH, 0.38 * layers + 1.3))
    image = ax.imshow(scores, cmap=SEQUENTIAL, aspect="auto")
    middle = (np.nanmin(scores) + np.nanmax(scores)) / 2
    for row in range(layers):
        for head in range(heads):
            name, value = f"{first_layer + row}.{head}", scores[row, head]
            ax.text(
                head, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=8.5,
                color="white" if value < middle else "black",
                fontweight="bold" if name in marks else "normal",
            )  # fmt: skip
            if name in marks:
                ax.add_patch(
                    plt.Rectangle(
                        (head - 0.47, row - 0.46), 0.94, 0.92, fill=False, ec=VERMILION, lw=2.2
                    )
                )
    ax.set(
        xticks=range(heads),
        yticks=range(layers),
        yticklabels=range(first_layer, first_layer + layers),
        xlabel="head of the reader",
        ylabel="layer of the reader",
    )
    figure.colorbar(image, ax=ax, label=f"score with {writer}", shrink=0.9)
    return figure


def head_scores(previous: np.ndarray, copying: np.ndarray, even: float) -> Figure:
    """Each head by its previous-token score (along) and its copying score (up), by layer.

    previous, copying: [layer head]; even: the previous-token score of a head that spreads evenly.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.7))
    markers, colours = "osD^v", (BLUE, VERMILION, GREEN, ORANGE, BLACK)
    # With many heads only those that look back most are named; names of all would hide them.
    named = previous >= np.sort(previous, axis=None)[-min(24, previous.size)]
    for layer, (across, up) in enumerate(zip(previous, copying, strict=True)):
        look = layer % len(markers)
        ax.scatter(
            across, up, s=34, color=colours[look], marker=markers[look], label=f"layer {layer}"
        )
        # Names of neighbouring layers go to different sides, those within a layer up and down.
        side, anchor = ((-6, "right"), (6, "left"))[layer % 2]
        for rank, head in enumerate(np.argsort(up)):
            if named[layer, head]:
                ax.annotate(
                    f"{layer}.{head}", (across[head], up[head]), xytext=(side, (-8, 2)[rank % 2]),
                    textcoords="offset points", ha=anchor, fontsize=8.5,
                )  # fmt: skip
    ax.axvline(even, color=GREY, lw=1, ls="--")
    ax.axhline(0, color=GREY, lw=1)
    ax.margins(0.12)
    ax.set(xlabel="previous-token score, positions alone", ylabel="copying score")
    figure.legend(loc="outside upper center", ncols=min(4, len(previous)))
    return figure


def logit_parts(parts: pd.Series, title: str, most: int = 14) -> Figure:
    """The summands of one logit, largest first; what is left out is one bar of its own."""
    order = parts.abs().sort_values(ascending=False).index
    shown = parts[order[:most]]
    if len(order) > most:
        shown = pd.concat(
            [shown, pd.Series({f"{len(order) - most} others": parts[order[most:]].sum()})]
        )
    figure, ax = plt.subplots(figsize=(WIDTH, 0.27 * len(shown) + 1.1))
    _bars(ax, shown, title)
    return figure


def _bars(ax: plt.Axes, values: pd.Series, title: str) -> None:
    colours = [BLUE if value >= 0 else VERMILION for value in values]
    ax.barh(range(len(values)), values, color=colours)
    ax.axvline(0, color=BLACK, lw=0.8)
    ax.set(yticks=range(len(values)), yticklabels=list(values.index), title=title)
    ax.set_xlabel("summand of the logit")
    ax.invert_yaxis()
    reach = float(np.abs(values).max()) or 1.0
    for row, value in enumerate(values):
        ax.annotate(
            f"{value:+.2f}".replace("-", "−"), (value, row), xytext=(3 if value >= 0 else -3, 0),
            textcoords="offset points", va="center", ha="left" if value >= 0 else "right",
            fontsize=8.5,
        )  # fmt: skip
    ax.set_xlim(
        min(0, float(values.min())) - 0.35 * reach, max(0, float(values.max())) + 0.2 * reach
    )
