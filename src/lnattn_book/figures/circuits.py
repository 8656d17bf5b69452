"""Composition scores of heads (chapter 04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lnattn_book.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    SEQUENTIAL,
    SMALL,
    VERMILION,
    WIDTH,
    legend,
)


def score_distributions(
    samples: Mapping[str, np.ndarray], baseline: float, marked: Mapping[str, float]
) -> Figure:
    """Histograms of composition scores (log counts as densities), as outlines.

    samples: scores by name; baseline: 1/√d_model; marked: single scores with a label.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.9))
    bins = np.linspace(0, 1.02 * max(np.nanmax(values) for values in samples.values()), 90)
    looks = [(BLUE, "-"), (ORANGE, "--"), (GREY, ":")]
    for (name, values), (colour, line) in zip(samples.items(), looks, strict=False):
        density, _ = np.histogram(values, bins, density=True)
        ax.stairs(density, bins, color=colour, ls=line, lw=1.8, label=name)
    ax.axvline(baseline, color=BLACK, lw=1)
    across = ax.get_xaxis_transform()
    ax.text(baseline, 0.93, r" $1/\sqrt{d}$", transform=across, fontsize=SMALL)
    ax.set_yscale("log")
    ax.set_ylim(top=ax.get_ylim()[1] * 6)
    for index, (name, score) in enumerate(sorted(marked.items(), key=lambda item: item[1])):
        height = 0.34 + 0.09 * (index % 5)
        ax.plot([score, score], [0, height], transform=across, color=VERMILION, lw=0.9)
        look = {"ha": "right", "va": "center", "fontsize": SMALL}
        ax.text(score, height, f"{name} ", transform=across, **look)
    ax.set(xlabel="composition score", ylabel="density (log scale)")
    legend(figure, columns=1)
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
            value, colour = scores[row, head], "white" if scores[row, head] < middle else "black"
            look = {"ha": "center", "va": "center", "fontsize": 8.5, "color": colour}
            ax.text(head, row, f"{100 * value:.0f}", **look)
            if f"{first_layer + row}.{head}" in marks:
                corner = (head - 0.47, row - 0.46)
                ax.add_patch(plt.Rectangle(corner, 0.94, 0.92, fill=False, ec=VERMILION, lw=2.2))
    ax.set(
        xticks=range(heads),
        yticks=range(layers),
        yticklabels=range(first_layer, first_layer + layers),
        xlabel="head of the reader",
        ylabel="layer of the reader",
    )
    figure.colorbar(image, ax=ax, label=f"score with {writer}", shrink=0.9)
    return figure
