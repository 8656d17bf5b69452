"""Figures of sub-words: joined pieces, shares beside chance, AUROC by class (chapter 06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import seaborn.objects as so
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lnattn.affinity.query_classes import CLASSES, KEYS, ClassAuroc
from lnattn.affinity.subwords import Subwords
from lnattn_book.style import (
    BLUE,
    GREY,
    SKY,
    SMALL,
    TERM_COLOURS,
    VERMILION,
    WIDTH,
    model_name,
    settings,
    term_label,
)

#: Colours of continuation pieces and of words.
_CLASS = {"continuation": BLUE, "word": VERMILION}
_TINTS = ("#d6e8f5", "#fbe3d2")


def joined_pieces(found: Subwords, names: Sequence[str], n: int = 12) -> Figure:
    """The n best examples as two parts of a word that meet, with head, rank and share.

    names: the text of every token of the vocabulary.
    """
    places = found.examples(n)
    pieces = found.pieces
    figure, (words, bars) = plt.subplots(
        1, 2, figsize=(WIDTH, 0.3 * len(places) + 0.9), sharey=True, width_ratios=(3, 2)
    )
    for row, place in enumerate(places):
        for token, side, tint, edge in (
            (pieces.keys[place], "right", _TINTS[0], BLUE),
            (pieces.queries[place], "left", _TINTS[1], VERMILION),
        ):
            words.text(
                -0.02 if side == "right" else 0.02,
                row,
                names[token],
                ha=side,
                va="center",
                bbox={
                    "boxstyle": "round,pad=0.25",
                    "facecolor": tint,
                    "edgecolor": edge,
                    "lw": 0.8,
                },
            )
        words.text(
            1.0,
            row,
            f"head {found.best_head[place]}, rank {found.best_rank[place]}",
            ha="right",
            va="center",
            fontsize=SMALL,
        )
    words.set(xlim=(-0.55, 1.0), ylim=(len(places) - 0.4, -0.6), xticks=[], yticks=[])
    words.spines[:].set_visible(False)
    words.set_title("key · query", fontsize=SMALL)
    share = pieces.share[places]
    bars.barh(np.arange(len(places)), share, color=SKY, height=0.6)
    for row, place in enumerate(places):
        bars.text(share[row] + 0.02, row, f"of {pieces.count[place]}", va="center", fontsize=8)
    bars.set(xlim=(0, 1.2), xticks=[0, 0.5, 1], yticks=[])
    bars.set_title("key's share of pairs", fontsize=SMALL)
    return figure


def shares_by_head(models: Mapping[str, Subwords], top: int = 10, fewest: int = 2) -> Figure:
    """Share of pieces whose predecessor is found, head by head and in the best, beside chance.

    One panel a model; where fewer than `fewest` pieces fit the rule, the panel says so instead.
    """
    figure, axes = plt.subplots(
        len(models), 1, figsize=(WIDTH, 2.3 * len(models) + 0.5), squeeze=False
    )
    for ax, (name, found) in zip(axes[:, 0], models.items(), strict=True):
        n = len(found.pieces)
        if n < fewest:
            words = f"{n} {'piece fits' if n == 1 else 'pieces fit'} the rule: too few"
            ax.text(0.5, 0.5, words, ha="center", transform=ax.transAxes)
            ax.set(title=model_name(name), xticks=[], yticks=[])
            continue
        table = found.table(top).reset_index()
        table["head"] = table["head"].astype(str)
        chance = table.assign(found=table["chance"], low=table["chance low"])
        chance["high"] = chance["chance high"]
        tidy = pd.concat({"found": table, "chance": chance}, names=["what"]).reset_index()
        (
            so.Plot(tidy, x="head", y="found", ymin="low", ymax="high", color="what")
            .add(so.Range(linewidth=2.5), so.Dodge(), legend=False)
            .add(so.Dot(pointsize=5), so.Dodge(), legend=False)
            .scale(color={"chance": GREY, "found": BLUE})
            .theme(settings())
            .on(ax)
            .plot()
        )
        ax.set_title(f"{model_name(name)}, {n} pieces")
        ax.set(xlabel="head" if ax is axes[-1, 0] else "", ylabel=f"share within rank {top}")
    figure.legend(
        handles=[
            Line2D([], [], color=BLUE, marker="o", lw=3, label="found, 95 % interval"),
            Line2D([], [], color=GREY, marker="o", lw=3, label="pieces exchanged: mean and band"),
        ],
        loc="outside upper center",
        ncols=2,
    )
    return figure


def class_panels(found: ClassAuroc) -> Figure:
    """AUROC of both classes of queries by head: as it is, among right keys, query-specific."""
    table = found.table()
    table["head"] = table["head"].astype(str)
    panels = (
        ("AUROC, all keys", "all keys", "auroc"),
        ("AUROC, keys of the right class", "right keys", "auroc"),
        ("the same, minus the wrong query", "right keys", "query-specific"),
    )
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 7.2), sharex=True)
    for ax, (title, keys, measure) in zip(axes, panels, strict=True):
        chosen = table[(table["keys"] == keys) & (table["measure"] == measure)]
        (
            so.Plot(chosen, x="head", y="mean", ymin="low", ymax="high", color="queries")
            .add(so.Range(linewidth=2), so.Dodge(), legend=False)
            .add(so.Dot(pointsize=5), so.Dodge(), legend=False)
            .scale(color=_CLASS)
            .theme(settings())
            .on(ax)
            .plot()
        )
        ax.axhline(0.5 if measure == "auroc" else 0, color=GREY, lw=0.8)
        if measure == "auroc":
            for name, value in zip(CLASSES, found.frequency[:, KEYS.index(keys), 0], strict=True):
                ax.axhline(value, color=_CLASS[name], ls="--", lw=1.2)
        ax.set_title(title)
        ax.set(xlabel="", ylabel="mean AUROC" if measure == "auroc" else "difference")
    axes[-1].set_xlabel("head")
    figure.legend(
        handles=[
            *(Patch(color=colour, label=f"{name} queries") for name, colour in _CLASS.items()),
            Line2D([], [], color=GREY, ls="--", lw=1.2, label="frequency alone"),
        ],
        loc="outside upper center",
        ncols=3,
    )
    return figure


def over_training(looks: pd.DataFrame) -> Figure:
    """Sub-words beside positions while a model is trained; one line a head where there are heads.

    looks: tables of `lnattn_book.small_models.look`, one below the other, with a column 'tokens'.
    """
    heads, best = looks[looks["head"] >= 0], looks[looks["head"] < 0].sort_values("tokens")
    figure, axes = plt.subplots(4, 1, figsize=(WIDTH, 8.6), sharex=True)
    millions = best["tokens"] / 1e6
    for name, colour, low, high in (
        ("found", BLUE, "low", "high"),
        ("chance", GREY, "chance low", "chance high"),
    ):
        axes[0].fill_between(millions, best[low], best[high], color=colour, alpha=0.25, lw=0)
        axes[0].plot(millions, best[name], "o-", color=colour, label=name)
    axes[0].legend()
    axes[0].set(title="pieces found within rank 10, best head", ylabel="share")
    panels = (
        ("own continuation", BLUE, "AUROC of pieces minus wrong query, right keys", "difference"),
        ("previous", VERMILION, "attention on i − 1 by position alone", "attention"),
    )
    for ax, (column, colour, title, label) in zip(axes[1:3], panels, strict=True):
        _lines(ax, heads, column, colour)
        ax.set(title=title, ylabel=label)
    for term in ("ee", "pp"):
        _lines(axes[3], heads, f"spread {term}", TERM_COLOURS[term])
    axes[3].legend(
        handles=[
            Line2D([], [], color=TERM_COLOURS[term], label=term_label(term))
            for term in ("ee", "pp")
        ]
    )
    axes[3].set_title("spread over the ten keys before a query, over $\\sqrt{d}$")
    axes[3].set(xlabel="million tokens of training", ylabel="deviation", xscale="log")
    axes[3].set_xticks(millions, [f"{float(f'{tokens:.2g}'):g}" for tokens in millions])
    axes[3].set_xticks([], minor=True)
    return figure


def _lines(ax: Axes, heads: pd.DataFrame, column: str, colour: str) -> None:
    """One thin line a head, over tokens."""
    sns.lineplot(
        heads.assign(millions=heads["tokens"] / 1e6),
        x="millions",
        y=column,
        units="head",
        estimator=None,
        color=colour,
        lw=1.2,
        marker="o",
        markersize=4,
        ax=ax,
    )
