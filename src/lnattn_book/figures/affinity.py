"""Figures of token affinity: a token with itself, and AUROC by head (chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from lnattn_book.page.style import (
    BLACK,
    DIVERGING,
    FONT,
    GREY,
    SMALL,
    TERM_COLOURS,
    WIDTH,
    legend,
    ring,
    words_at,
)
from lnattn_book.studies.detokenization import AffinityResult

#: A tint of T^ee's colour, on which black can be read.
_PALE = "#a9cfe4"
#: Steps of colour of a noisy map: few, since each pixel's shade is in the page.
_SHADES = 11


def same_token(study: AffinityResult, ringed: int) -> Figure:
    """z-score of the token itself in its own row of the vocabulary: all tokens, head by head."""
    figure, ax = plt.subplots(figsize=(WIDTH, 2.5))
    ax.axhline(0, color=GREY, lw=0.8)
    look = {"color": _PALE, "saturation": 1, "linewidth": 0.8, "density_norm": "width"}
    sns.violinplot(pd.DataFrame(study.same_token.T), inner="box", cut=0, **look)
    ring(ax, ringed, np.median(study.same_token[ringed]))
    ax.set(xlabel="head", ylabel="z-score")
    return figure


def heat_maps(study: AffinityResult, columns: int = 4) -> Figure:
    """T^ee among the study's random tokens, all with all: a panel a head, its range beside it.

    A panel has a scale of its own, from −m to m, m its largest magnitude: heads are compared by
    their patterns, and by the ranges in the titles. Compare Fig. 2B and 12.
    """
    rows = -(-study.n_heads // columns)
    figure = plt.figure(figsize=(WIDTH, 1.55 * rows))
    for head, scores in enumerate(study.heat):
        ax = figure.add_subplot(rows, columns, head + 1)
        limit = np.abs(scores).max()
        ax.imshow(scores, cmap=plt.get_cmap(DIVERGING, _SHADES), vmin=-limit, vmax=limit)
        scope = f"{scores.min():.0f}…{scores.max():.0f}".replace("-", "−")
        ax.set_title(f"{head}: {scope}", fontsize=SMALL)
        ax.set(xticks=[], yticks=[])
    figure.supxlabel("key token", fontsize=FONT)
    figure.supylabel("query token", fontsize=FONT)
    return figure


def auroc_bars(study: AffinityResult) -> Figure:
    """Mean AUROC of every head with its interval, with a wrong query, and of a list (cf. Fig. 2D).

    Ringed: the head with the largest area, when it is asked with the wrong query. The list: of
    frequent tokens.
    """
    table = study.table()
    heads = np.arange(study.n_heads)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    errors = np.abs(table[["low", "high"]].to_numpy().T - table["auroc"].to_numpy())
    # Bars start at 0.5: to the left and right of it lies what a coin would not give.
    look = {
        "color": TERM_COLOURS["ee"],
        "alpha": 0.55,
        "width": 0.7,
        "capsize": 2,
        "label": "the head",
    }
    ax.bar(heads, table["auroc"] - 0.5, bottom=0.5, yerr=errors, **look)
    ax.axhline(0.5, color=BLACK, lw=0.8)
    wrong = table["wrong query"]
    ax.plot(heads, wrong, "o", color=BLACK, mfc="white", label="with a wrong query", ms=6)
    frequency, _cosine = study.common_baselines
    ax.axhline(frequency, color=BLACK, ls="--")
    words_at(ax, "the list", (heads[-1] + 0.6, frequency), (0, 4), ha="right")
    top = int(table["auroc"].argmax())
    ring(ax, top, wrong.iloc[top])
    lowest = min(0.4, float(table[["low", "wrong query"]].min(axis=None)) - 0.02)
    ax.set(xlabel="head", ylabel="mean AUROC", ylim=(lowest, 1), xticks=heads)
    legend(figure)
    return figure


def recall_curves(walks: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """A panel a query: the share of its neighbours met, against keys walked down, for each order.

    walks: title of a panel → words of an order → recall [key].
    """
    figure, axes = plt.subplots(1, len(walks), figsize=(WIDTH, 3.0), sharey=True, squeeze=False)
    for ax, (title, orders) in zip(axes[0], walks.items(), strict=True):
        for (words, met), (colour, line) in zip(orders.items(), _WALKS, strict=True):
            keys = np.arange(1, len(met) + 1)
            ax.plot(keys, met, line, color=colour, drawstyle="steps-post", label=words)
        ax.set(xscale="log", ylim=(-0.02, 1.02), title=title)
    figure.supxlabel("keys walked down, from the best", fontsize=FONT)
    axes[0, 0].set_ylabel("recall, by counts")
    legend(figure, columns=1)
    return figure


#: Colour and line of a head's order, and of the list's.
_WALKS = ((BLACK, "-"), (GREY, "--"))
