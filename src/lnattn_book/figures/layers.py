"""Figures of the layers above the first: pieces that are found, and lone tokens beside text."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn_book.page.style import BLACK, BLUE, GREY, SMALL, WIDTH, intervals, legend, model_name

#: Places between the layers of one model and those of the next.
_GAP = 1.0
#: The least share that the figure of lone tokens shows; what is lower is written.
LEAST = -2.0


def joined_by_layer(joining: pd.DataFrame) -> Figure:
    """Share of pieces whose predecessor is found, beside chance, by model and layer."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.0))
    for begin, rows, label in _groups(ax, joining):
        chance = rows[["chance", "chance low", "chance high"]]
        labels = ("found, 95 % interval", "pieces exchanged, 95 % of draws") if label else ("", "")
        intervals(ax, rows[["found", "low", "high"]], BLUE, labels[0] or None, begin - 0.15)
        intervals(ax, chance, GREY, labels[1] or None, begin + 0.15)
    ax.set(ylabel="share within rank 10", ylim=(0, None))
    ax.yaxis.set_major_formatter("{x:.0%}")
    legend(figure)
    return figure


def alone_by_layer(shares: pd.DataFrame) -> Figure:
    """Shares of the variance in text that lone tokens account for, own and another's."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2))
    ax.axhline(0, color=BLACK, lw=1)
    for begin, rows, label in _groups(ax, shares):
        for (column, values), colour, mark in zip(rows.items(), (BLUE, GREY), "ov", strict=True):
            places = [begin + place for place in range(len(rows))]
            shown = values.clip(lower=LEAST)
            name = f"{column} lone vector" if label else None
            ax.plot(places, shown, mark, color=colour, label=name, clip_on=False)
        for place, value in enumerate(rows["own"]):
            if value < LEAST:
                words = f"{value:.1f}".replace("-", "−")
                spot = (begin + place, LEAST + 0.12)
                ax.text(*spot, words, ha="center", va="bottom", rotation=90, fontsize=SMALL)
    ax.set(ylabel="share of the variance in text", ylim=(LEAST, 1.1))
    legend(figure)
    return figure


def _groups(ax: Axes, table: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame, bool]]:
    """Each model's first place, its rows and whether it is the first; names both on the axis."""
    begin = 0.0
    places: list[float] = []
    layers: list[str] = []
    for number, (model, rows) in enumerate(table.groupby(level="model", sort=False)):
        of_model = [begin + place for place in range(len(rows))]
        places += of_model
        layers += [str(layer) for layer in rows.index.get_level_values("layer")]
        middle = (of_model[0] + of_model[-1]) / 2
        name = model_name(str(model)).replace("-", "-\n", 1)
        ax.text(
            middle, -0.13, name, ha="center", va="top", fontsize=SMALL,
            transform=ax.get_xaxis_transform(),
        )  # fmt: skip
        yield begin, rows, number == 0
        begin = of_model[-1] + 1 + _GAP
    ax.set_xticks(places, layers)
    ax.set_xlabel("layer", labelpad=28)
