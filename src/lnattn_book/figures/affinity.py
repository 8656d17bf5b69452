"""Figures of token affinity: partners, heat maps, recall curves, AUROC by head (chapter 06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lnattn.affinity.study import COMMON_BASELINES, HEAD_BASELINES, Detokenization
from lnattn.affinity.topk import partners
from lnattn.affinity.vectors import TokenVectors
from lnattn.text.counts import Counts
from lnattn_book.style import (
    BLACK,
    BLUE,
    DIVERGING,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILION,
    WIDTH,
    model_name,
)

#: Marker and colour of every baseline.
_LOOK = {"shuffled": ("x", GREY), "wrong query": ("o", VERMILION), "reversed": ("<", PURPLE)}
_UNSEEN = "#c8c8c8"
_LINES = {"frequency": ("--", GREEN), "cosine": (":", ORANGE)}


def best_keys(
    vectors: TokenVectors,
    asked: Sequence[tuple[int, int]],
    names: Sequence[str],
    counts: Counts,
    k: int = 8,
) -> Figure:
    """The k best keys of some query tokens, one panel each (compare Fig. 2A).

    asked: (query token, head) for each panel; names: the text of every token. A key that precedes
    the query in the corpus is drawn in colour with its count.
    """
    figure, axes = plt.subplots(
        1, max(1, len(asked)), figsize=(WIDTH * 1.15, 0.32 * k + 1.3), squeeze=False
    )
    if not asked:
        axes[0, 0].text(0.5, 0.5, "no query of the table is a token of this model", ha="center")
        axes[0, 0].set_axis_off()
    for ax, (query, head) in zip(axes[0], asked, strict=False):
        best = partners(vectors, [query], k)
        keys, values = best.ids[head, 0].tolist(), best.scores[head, 0]
        seen = [counts.count(key, query) for key in keys]
        places = np.arange(k)[::-1]
        ax.barh(places, values, color=[BLUE if n else _UNSEEN for n in seen])
        for place, n in zip(places, seen, strict=True):
            if n:
                ax.text(0.2, place, f"{n:,}×", color="white", va="center", fontsize=8)
        ax.set_yticks(places, [names[key] for key in keys], fontsize=SMALL)
        ax.tick_params(axis="y", length=0)
        ax.set_title(f"{names[query]}, head {head}", fontsize=SMALL)
        ax.set_xlabel("$T^{ee}$")
    figure.legend(
        handles=[
            Patch(color=BLUE, label="comes before the query in the corpus"),
            Patch(color=_UNSEEN, label="does not"),
        ],
        loc="outside upper center",
        ncols=2,
    )
    return figure


def heat_maps(heat: np.ndarray, z: np.ndarray) -> Figure:
    """T^ee of random tokens with each other, one panel a head (compare Fig. 12).

    heat: [head n n]; z: [head], written into the titles. One colour scale for all heads.
    """
    limit = float(np.quantile(np.abs(heat), 0.999))
    columns = min(4, len(heat))
    rows = -(-len(heat) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 1.55 * rows + 0.7), squeeze=False, sharex=True, sharey=True
    )
    for ax in axes.flat[len(heat) :]:
        ax.set_visible(False)
    for head, (ax, panel) in enumerate(zip(axes.flat, heat, strict=False)):
        image = ax.imshow(panel, cmap=DIVERGING, vmin=-limit, vmax=limit)
        ax.set_title(f"{head}: z = {z[head]:.1f}", fontsize=SMALL)
        ax.set(xticks=[], yticks=[])
    figure.supxlabel("key token", fontsize=SMALL)
    figure.supylabel("query token", fontsize=SMALL)
    figure.colorbar(image, ax=axes, location="top", aspect=40, label="$T^{ee}$")
    return figure


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


def recall_curves(
    curves: Mapping[str, Sequence[tuple[str, np.ndarray, np.ndarray, float]]],
) -> Figure:
    """Recall curves, one panel a query token (compare Fig. 2C).

    curves: title → (label, share of negatives passed, share of bigrams recalled, AUROC).
    """
    figure, axes = plt.subplots(
        1, len(curves), figsize=(WIDTH, 4.0), sharex=True, sharey=True, squeeze=False
    )
    for ax, (title, lines) in zip(axes[0], curves.items(), strict=True):
        ax.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls=":")
        styles = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))
        for (label, x, y, area), (colour, dash) in zip(lines, styles, strict=False):
            ax.plot(x, y, color=colour, ls=dash, label=f"{label}: {area:.2f}")
        ax.set_title(title)
        ax.set_aspect("equal")
        ax.set_xlabel("share of other keys passed", fontsize=SMALL)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), handlelength=1.6)
    axes[0, 0].set_ylabel("share of bigrams recalled")
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
        ax.axhline(value, color=colour, ls=dash, label=name)
    ax.set_xticks(heads)
    ax.set(xlabel="head", ylabel="mean AUROC", ylim=(0, 1))
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        [Patch(color=SKY), *handles], ["the head", *labels], loc="outside upper center", ncols=3
    )
    return figure


def specific_part(studies: Mapping[str, np.ndarray]) -> Figure:
    """AUROC of a head minus that of the wrong query, sorted within each model."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.0))
    ax.axhline(0, color=BLACK, lw=0.8)
    handles = []
    for (name, values), colour, marker in zip(
        studies.items(), (BLUE, VERMILION, GREEN), "osD", strict=False
    ):
        order = np.argsort(-values)
        ax.plot(np.arange(len(values)), values[order], marker + "-", color=colour, lw=1)
        for place, head in enumerate(order):
            ax.annotate(
                str(head),
                (place, values[head]),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=colour,
            )
        handles.append(Line2D([], [], color=colour, marker=marker, label=model_name(name)))
    ax.legend(handles=handles)
    ax.margins(y=0.15)
    ax.set(xlabel="heads, best first", ylabel="AUROC minus wrong query", xticks=[])
    return figure


def pairs_table(study: Detokenization, names: Sequence[str], top: int = 4) -> pd.DataFrame:
    """The strongest pairs of every head as 'key query' in reading order.

    names: the text of every token of the vocabulary.
    """
    rows = {
        head: [
            f"{names[key]} · {names[query]}"
            for key, query in zip(
                study.pair_keys[head, :top], study.pair_queries[head, :top], strict=True
            )
        ]
        for head in range(study.n_heads)
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=range(1, top + 1))
    table.index.name = "head"
    return table
