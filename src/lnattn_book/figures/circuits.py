"""Composition scores of heads (the companion on circuits)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter, ScalarFormatter

from lnattn_book.page.style import (
    BLACK,
    GREY,
    ROSE,
    SEQUENTIAL,
    WIDTH,
    legend,
)


def usable_by_share(table: pd.DataFrame, ring: Sequence[float] = ()) -> Figure:
    """Usable pairs of heads for each impossible one, among ever more of the highest scores.

    table: rows with kind, share, ratio, low and high; ring: shares that the text speaks of.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    looks = {"K": (BLACK, "-", "o"), "Q": (ROSE, "--", "s"), "V": (GREY, ":", "^")}
    for kind, (colour, line, marker) in looks.items():
        rows = table[table["kind"] == kind].sort_values("share")
        share = rows["share"].to_numpy()
        ratio = rows["ratio"].to_numpy()
        ax.plot(share, ratio, color=colour, ls=line, marker=marker, label=f"{kind}-composition")
        ax.fill_between(share, rows["low"], rows["high"], color=colour, alpha=0.12, lw=0)
        ringed = np.isin(share, ring)
        ax.plot(share[ringed], ratio[ringed], "o", mfc="none", mec=colour, ms=12)
    ax.axhline(1, color=GREY, lw=1)
    ax.set(xscale="log", yscale="log", xlabel="highest scores of two layers, share of all")
    ax.set_ylabel("usable pairs for each impossible one")
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())
    legend(figure, columns=3)
    return figure


def readers_of(
    scores: np.ndarray, writer: str, first_layer: int, marks: Sequence[str], baseline: float
) -> Figure:
    """Scores of one head as writer with every head of the later layers, layer by layer.

    scores: [layer head], rows from `first_layer` on; marks: readers 'layer.head' to frame;
    baseline: what heads that have nothing to do with each other score, a line on the colour bar.
    """
    layers, heads = scores.shape
    figure, ax = plt.subplots(figsize=(WIDTH, 0.38 * layers + 1.3))
    image = ax.imshow(scores, cmap=SEQUENTIAL, aspect="auto")
    middle = (np.nanmin(scores) + np.nanmax(scores)) / 2
    for row in range(layers):
        for head in range(heads):
            value = scores[row, head]
            colour = "white" if scores[row, head] < middle else "black"
            look = {"ha": "center", "va": "center", "fontsize": 8.5, "color": colour}
            ax.text(head, row, f"{100 * value:.0f}", **look)
            if f"{first_layer + row}.{head}" in marks:
                corner = (head - 0.47, row - 0.46)
                ax.add_patch(plt.Rectangle(corner, 0.94, 0.92, fill=False, ec=ROSE, lw=2.2))
    ax.set(
        xticks=range(heads),
        yticks=range(layers),
        yticklabels=range(first_layer, first_layer + layers),
        xlabel="head of the reader",
        ylabel="layer of the reader",
    )
    bar = figure.colorbar(image, ax=ax, label=f"score with {writer}", shrink=0.9)
    bar.ax.axhline(baseline, color=ROSE, lw=2)
    return figure
