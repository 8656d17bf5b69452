"""Figures of the page on departures: the same quantity, by the text and by the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn_book.style import (
    BLUE,
    GREY,
    TERM_COLOURS,
    VERMILION,
    WIDTH,
    model_name,
    term_symbol,
)


def two_rankings(means: Mapping[str, Float[np.ndarray, "term"]], names: Sequence[str]) -> Figure:
    """Shares of the sum, side by side for each way of counting; one colour for each term."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    places = np.arange(len(means))
    for number, name in enumerate(names):
        shares = [values[number] / values.sum() for values in means.values()]
        dashes = "--" if name in ("ep", "pe") else "-"
        ax.plot(places, shares, "o", ls=dashes, color=TERM_COLOURS[name], label=term_symbol(name))
    ax.set_xticks(places, [name.replace(" ", "\n", 1) for name in means])
    ax.set_ylim(0, None)
    ax.set_ylabel("share of the sum of six")
    figure.legend(
        *ax.get_legend_handles_labels(),
        ncols=6,
        loc="outside upper center",
        handlelength=1.4,
        columnspacing=0.9,
    )
    return figure


def either_way(
    panels: Mapping[str, tuple[Float[np.ndarray, "head"], Float[np.ndarray, "head"]]],
    labels: tuple[str, str],
    axis: str,
) -> Figure:
    """One number for each head, by the text (circle) and by the code (square), joined by a line."""
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(WIDTH, 2.5 * len(panels)), squeeze=False, sharey=False
    )
    for ax, (title, (text, code)) in zip(axes[:, 0], panels.items(), strict=True):
        heads = np.arange(len(text))
        ax.vlines(heads, code, text, color=GREY, lw=1)
        ax.plot(heads, text, "o", color=BLUE, label=labels[0])
        ax.plot(heads, code, "s", color=VERMILION, label=labels[1])
        ax.set_title(model_name(title))
        ax.set_xticks(heads)
        ax.set_ylabel(axis)
    axes[0, 0].legend(loc="best")
    axes[-1, 0].set_xlabel("head")
    return figure
