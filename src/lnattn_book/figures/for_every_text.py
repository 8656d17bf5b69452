"""Intervals over all texts, drawn: pieces and whole words, least to greatest (chapter 13)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn_book.page.style import TEAL, VIOLET, WIDTH

#: Tokens of a kind that are drawn: more would run into one another.
SHOWN = 60


def intervals(
    least: Float[np.ndarray, "kind token"], greatest: Float[np.ndarray, "kind token"]
) -> Figure:
    """A line a token from its least to its greatest attention; pieces and then whole words.

    Of each kind some, evenly from the lowest least to the highest.
    """
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), sharey=True, layout="constrained")
    titles = ("pieces of words", "whole words")
    for ax, low, high, colour, title in zip(
        axes, least, greatest, (VIOLET, TEAL), titles, strict=True
    ):
        order = np.argsort(low)[np.linspace(0, len(low) - 1, min(SHOWN, len(low))).astype(int)]
        across = np.linspace(0, 100, len(order))
        ax.vlines(across, low[order], high[order], color=colour, linewidth=1.4)
        ax.plot(across, low[order], ".", color=colour, markersize=4)
        ax.axhline(np.median(low), color=colour, linewidth=0.8, linestyle="--")
        ax.set(title=title, xlabel="% of the tokens, by their least", ylim=(0, 1))
    axes[0].set_ylabel("attention to the token before")
    return figure
