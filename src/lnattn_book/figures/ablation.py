"""What models lose without parts of their first layer's scores, drawn (chapter 11)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn_book.page.style import (
    GREY,
    TERM_COLOURS,
    WIDTH,
    legend,
)

#: What is compared, its words, and the colour of its (first) term.
_PARTS = (
    ("pairs", "without pairs of tokens", TERM_COLOURS["ee"]),
    ("positions", "without all that knows a position", TERM_COLOURS["pp"]),
)


def early_and_late(runs: pd.DataFrame) -> Figure:
    """Trainings: what is lost above; pieces found and attention on the token before by place.

    runs: a row a seed and step, columns tokens, pairs, positions (nats), found, chance, previous.
    Thin: each training; with marks: their mean.
    """
    figure, (top, ax) = plt.subplots(2, 1, figsize=(WIDTH, 5.4), sharex=True)
    colour_of = {part: colour for part, _, colour in _PARTS}
    mean = runs.groupby("step").mean()

    def curves(axes: Axes, column: str, label: str, colour: str, mark: str) -> None:
        for _, run in runs.groupby("seed"):
            axes.plot(run["tokens"], run[column], color=colour, lw=0.7, alpha=0.5)
        axes.plot(mean["tokens"], mean[column], f"{mark}-", color=colour, ms=4, label=label)

    for part, label, colour in _PARTS:
        curves(top, part, label, colour, "o")
    top.axhline(0, color=GREY, lw=0.8, zorder=0)
    top.set_yscale("symlog", linthresh=0.01)
    top.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    top.set(ylabel="lost (nats a token)", ylim=(-0.006, 1.5))
    curves(ax, "found", "pieces found by pairs", colour_of["pairs"], "s")
    curves(ax, "previous", _BY_PLACE, colour_of["positions"], "s")
    ax.plot(mean["tokens"], mean["chance"], ":", color=GREY, label="found by chance")
    ax.set(xscale="log", xlabel="tokens of training", ylabel="share", ylim=(0, None))
    ticks = mean["tokens"].to_numpy()
    labels = [f"{tick / 1e6:.{int(tick < 1e7)}f}M" for tick in ticks]
    crowded = [*(ticks[1:] < 1.6 * ticks[:-1]), False]  # the label before the last one
    ax.set_xticks(ticks, np.where(crowded, "", labels))
    ax.minorticks_off()
    legend(figure, "upper left", columns=1)
    return figure


_BY_PLACE = "largest attention on the token before, by place alone"
