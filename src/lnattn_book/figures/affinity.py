"""Figures of token affinity: a token with itself, and AUROC by head (chapter 06)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lnattn.affinity.study import COMMON_BASELINES, HEAD_BASELINES, Detokenization
from lnattn_book.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    WIDTH,
    model_name,
)

#: Marker and colour of every baseline.
_LOOK = {"shuffled": ("x", GREY), "wrong query": ("o", VERMILION), "reversed": ("<", PURPLE)}
_LINES = {"frequency": ("--", GREEN), "cosine": (":", ORANGE)}


def same_token(studies: Mapping[str, Detokenization]) -> Figure:
    """z-score of the token itself in its own row of the vocabulary: all tokens, head by head."""
    figure, axes = plt.subplots(
        len(studies), 1, figsize=(WIDTH, 1.9 * len(studies) + 0.6), squeeze=False
    )
    for ax, (name, study) in zip(axes[:, 0], studies.items(), strict=True):
        heads = np.arange(study.n_heads)
        low, first, median, third, high = np.quantile(
            study.same_token, [0.025, 0.25, 0.5, 0.75, 0.975], axis=1
        )
        ax.axhline(0, color=GREY, lw=0.8)
        ax.vlines(heads, low, high, color=SKY, lw=2)
        ax.vlines(heads, first, third, color=BLUE, lw=6)
        ax.plot(heads, median, "o", color="white", mec=BLACK, ms=5)
        ax.set_xticks(heads)
        ax.set_ylabel("z-score")
        ax.set_title(model_name(name))
    axes[-1, 0].set_xlabel("head")
    return figure


def auroc_bars(study: Detokenization) -> Figure:
    """Mean AUROC of every head with its interval, and all baselines (compare Fig. 2D)."""
    table = study.table()
    heads = np.arange(study.n_heads)
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2))
    errors = np.abs(table[["low", "high"]].to_numpy().T - table["auroc"].to_numpy())
    # Bars start at 0.5: to the left and right of it lies what a coin would not give.
    ax.bar(heads, table["auroc"] - 0.5, bottom=0.5, color=SKY, width=0.7, yerr=errors, capsize=2)
    ax.axhline(0.5, color=BLACK, lw=0.8)
    for name in HEAD_BASELINES:
        marker, colour = _LOOK[name]
        ax.plot(heads, table[name], marker, color=colour, label=name, ms=6)
    for name, value in zip(COMMON_BASELINES, study.common_baselines, strict=True):
        dash, colour = _LINES[name]
        ax.axhline(value, color=colour, ls=dash)
        ax.annotate(
            name,
            (1, value),
            (0, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            color=colour,
        )
    ax.set_xticks(heads)
    ax.set(xlabel="head", ylabel="mean AUROC", ylim=(0, 1))
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        [Patch(color=SKY), *handles], ["the head", *labels], loc="outside upper center", ncols=3
    )
    return figure
