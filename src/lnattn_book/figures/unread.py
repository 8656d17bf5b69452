"""What models write along 1, and what arms of other norms do (chapter 10); rotary frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lnattn_book.page.style import (
    BLACK,
    BROWN,
    GREY,
    OLIVE,
    ROSE,
    TEAL,
    VIOLET,
    WIDTH,
    legend,
    ring,
    words_at,
)

#: Mark and colour of what a matrix belongs to.
_KINDS = {
    "attention": ("o", VIOLET),
    "FFN": ("s", BROWN),
    "positions": ("^", BLACK),
    "tokens": ("v", TEAL),
}
#: The lines of the arms' figure: norm, direction (0: 1, 1: n), colour, style, words.
_LINES = (
    ("LayerNorm", 0, VIOLET, "-", "LayerNorm, along 1"),
    ("removes n", 1, OLIVE, "-", "removes n, along n"),
    ("removes n", 0, OLIVE, ":", "removes n, along 1"),
    ("RMSNorm", 0, ROSE, ":", "RMSNorm, along 1"),
)


def nobody_reads() -> Figure:
    """Vectors that differ along **1** only; their common shadow is read, the gradient is in it."""
    figure, ax = plt.subplots(figsize=(WIDTH, 2.9))
    shadow = 3.0
    ax.plot([-0.3, 5.2], [0, 0], color=GREY, lw=1)
    ax.annotate("", (0, 2.8), (0, -1.2), arrowprops=_arrow(GREY, ls="--"))
    words_at(ax, "1", (0, 2.8), (7, -9), color=GREY, fontweight="bold")
    words_at(ax, "all that is orthogonal to 1", (5.2, 0), (0, -13), ha="right", color=GREY)
    ax.plot([shadow, shadow], [-0.9, 2.3], ":", color=GREY, lw=1.3)
    for height, name in ((2.3, "x"), (1.2, "x′"), (-0.9, "x″")):
        ax.annotate("", (shadow, height), (0, 0), arrowprops=_arrow(VIOLET))
        words_at(ax, name, (shadow, height), (5, 3), style="italic")
    ax.annotate("", (shadow, 0), (0, 0), arrowprops=_arrow(BLACK, lw=2.6))
    words_at(ax, "read: x C", (shadow, 0), (5, 4), fontweight="bold")
    ax.annotate("", (4.7, 2.3), (shadow + 0.45, 2.3), arrowprops=_arrow(ROSE))
    words_at(ax, "gradient", (4.75, 2.3), (2, -3), color=ROSE)
    ax.set(xlim=(-0.4, 5.6), ylim=(-1.3, 2.9))
    ax.axis("off")
    return figure


def _arrow(colour: str, **look: Any) -> dict[str, Any]:
    return {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0, **look}


def along_1(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """A(W, 1) of every matrix that only writes, model by model, and chance where it is widest.

    tables: columns kind, layer, only_writes, along, low, high, norm; one column of marks a model.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.8))
    for place, table in enumerate(tables.values()):
        table = table[table["only_writes"]]
        rest = table[table["kind"] != "positions"]
        band = rest["low"].min(), rest["high"].max()
        ax.fill_between([place - 0.4, place + 0.4], *band, color=GREY, alpha=0.25, linewidth=0)
        for kind, (mark, colour) in _KINDS.items():
            rows = table[table["kind"] == kind]
            if rows.empty:
                continue
            spread = np.linspace(-0.25, 0.25, len(rows)) if len(rows) > 1 else np.zeros(1)
            ax.plot(place + spread, rows["along"], mark, color=colour, markersize=4, label=kind)
            for x, y in zip(place + spread, rows["along"], strict=True):
                if kind == "attention" and y > band[1]:
                    ring(ax, x, y)
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set_yscale("log")
    ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    names = [f"{name}\n{table['norm'].iloc[0]}" for name, table in tables.items()]
    ax.set_xticks(range(len(tables)), names)
    ax.set_ylabel("energy along 1 (chance: 1)")
    legend(figure, "lower center", 4)
    return figure


def arms(study: Mapping[str, np.ndarray], norms: list[str], optimisers: list[str]) -> Figure:
    """A over training, geometric mean over matrices, a thin line a seed; a panel an optimiser.

    study: `weight` [norm optimiser seed mark writer direction] and `marks`.
    """
    figure, axes = plt.subplots(1, len(optimisers), figsize=(WIDTH, 3.6), sharey=True)
    marks = study["marks"]
    mean = np.exp(np.log(study["weight"]).mean(axis=4))
    for column, (optimiser, ax) in enumerate(zip(optimisers, axes, strict=True)):
        for norm, direction, colour, line, words in _LINES:
            runs = mean[norms.index(norm), column, :, :, direction]
            ax.plot(marks, runs.T, line, color=colour, linewidth=0.6, alpha=0.5)
            middle = np.exp(np.log(runs).mean(axis=0))
            ax.plot(marks, middle, line, color=colour, label=words)
        ax.set_xscale("symlog", linthresh=5)
        ax.set_yscale("log")
        ax.set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
        ax.minorticks_off()
        ax.set_xticks([0, 5, 50, 500], ["0", "5", "50", "500"], fontsize=8)
        ax.set_title(optimiser)
        ax.set_xlabel("step")
    axes[0].set_ylabel("energy along a direction\n(chance: 1)")
    legend(figure, "lower center")
    return figure
