"""A layer's attention, its operations by part, and its time against the roofline (chapter 01)."""

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
    DIVERGING,
    GREEN,
    GREY,
    HIDDEN,
    ORANGE,
    SEQUENTIAL,
    SMALL,
    VERMILION,
    WIDTH,
)


def score_matrices(shared: np.ndarray, separate: np.ndarray, labels: Sequence[str]) -> Figure:
    """Scores with one map for both sides and with two maps, each on its own symmetric scale."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), sharey=True)
    titles = ("one map", "two maps")
    for ax, scores, title in zip(axes, (shared, separate), titles, strict=True):
        limit = float(np.abs(scores).max())
        ax.imshow(scores, cmap=DIVERGING, vmin=-limit, vmax=limit)
        ax.set(
            title=title,
            xlabel="key",
            xticks=range(len(labels)),
            yticks=range(len(labels)),
            yticklabels=labels,
        )
        ax.set_xticklabels(labels, rotation=60, ha="right")
    axes[0].set_ylabel("query")
    return figure


def expectation(values: np.ndarray, weights: np.ndarray, output: np.ndarray) -> Figure:
    """One head with two features: value vectors as discs sized by attention, and their mean."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    ax.scatter(*values.T, s=30 + 1500 * weights, color=BLUE, alpha=0.35, label="value of a key")
    ax.scatter(*values.T, s=12, color=BLUE)
    for j, (value, weight) in enumerate(zip(values, weights, strict=True)):
        ax.annotate(
            f"key {j}: {weight:.2f}", value, xytext=(7, 7), textcoords="offset points",
            fontsize=SMALL,
        )  # fmt: skip
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
    _plain_powers(ax, shares.index.tolist())
    ax.set(
        xlabel="tokens N (causal prefill)",
        ylabel="share of operations",
        ylim=(0, 1),
        xlim=(shares.index.min(), shares.index.max()),
    )
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def against_the_roof(prefill: pd.DataFrame, decode: pd.DataFrame) -> Figure:
    """Measured milliseconds of a layer beside the roofline: prefill against N, decoding against M.

    prefill, decode: tables of `lnattn.costs.roofline.measure_layers`.
    """
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
    panels = (
        (prefill, "queries", "tokens N", "prefill of N tokens"),
        (decode, "keys", "tokens in the cache and the new one, M", "decoding one token"),
    )
    for ax, (table, column, label, title) in zip(axes, panels, strict=True):
        x = table[column]
        ax.plot(x, 1e3 * table["roofline"], color=BLACK, label="roofline, everything fused")
        unfused = 1e3 * table["unfused"]
        ax.plot(x, unfused, color=GREY, ls="--", label="roofline, operator by operator")
        low = 1e3 * (table["measured"] - table["fastest"])
        ax.errorbar(
            x, 1e3 * table["measured"], yerr=[low, np.zeros_like(low)], fmt="o", color=BLUE,
            capsize=3, label="measured (median, down to fastest)",
        )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        _plain_powers(ax, x.tolist())
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="y")
        ax.set(title=title, xlabel=label, ylabel="milliseconds a layer")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=1)
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


def _plain_powers(ax: plt.Axes, ticks: Sequence[int]) -> None:
    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
