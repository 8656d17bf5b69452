"""What a layer's attention does (chapter 01), and its operations by part (the page on costs)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from lnattn_book.figures.terms import without_hidden
from lnattn_book.style import (
    BLACK,
    BLUE,
    GREEN,
    HIDDEN,
    ORANGE,
    SEQUENTIAL,
    VERMILION,
    WIDTH,
    legend,
    words_at,
)


def expectation(values: np.ndarray, weights: np.ndarray, output: np.ndarray) -> Figure:
    """One head with two features: value vectors as discs sized by attention, and their mean."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    ax.scatter(*values.T, s=30 + 1500 * weights, color=BLUE, alpha=0.35, label="value of a key")
    ax.scatter(*values.T, s=12, color=BLUE)
    for j, (value, weight) in enumerate(zip(values, weights, strict=True)):
        words_at(ax, f"key {j}: {weight:.2f}", *value, (7, 7))
    ax.scatter(*output, marker="X", s=120, color=VERMILION, label="output", zorder=3)
    ax.margins(0.2)
    ax.set(xlabel="feature 1 of the value", ylabel="feature 2")
    ax.legend(markerscale=0.5, loc="best")
    return figure


def operations_by_part(shares: pd.DataFrame, crossing: int | float) -> Figure:
    """Shares of a layer's operations by group of products against the number of tokens.

    shares: index N, one column a group, rows adding up to 1; crossing: the N from which the two
    products with the attention matrix outweigh all others.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.5))
    colours = (BLUE, ORANGE, GREEN)
    ax.stackplot(
        shares.index, shares.T.to_numpy(), labels=list(shares.columns), colors=colours, alpha=0.85
    )
    ax.axvline(crossing, color=BLACK, ls="--", lw=1.2)
    ax.set_xscale("log", base=2)
    ax.set_xticks(shares.index)
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(
        xlabel="tokens N (causal prefill)",
        ylabel="share of operations",
        ylim=(0, 1),
        xlim=(shares.index.min(), shares.index.max()),
    )
    legend(figure, columns=3)
    return figure


def attention_pattern(alpha: np.ndarray, labels: Sequence[str]) -> Figure:
    """One head's attention over a sentence: rows are queries and add up to 1."""
    figure, ax = plt.subplots(figsize=(WIDTH, 4.4))
    image = ax.imshow(without_hidden(alpha), cmap=SEQUENTIAL, vmin=0)
    ax.set_facecolor(HIDDEN)
    ax.set(xlabel="key", ylabel="query", xticks=range(len(labels)), yticks=range(len(labels)))
    ax.set_xticklabels(labels, rotation=60, ha="right")
    ax.set_yticklabels(labels)
    figure.colorbar(image, ax=ax, label="attention weight")
    return figure
