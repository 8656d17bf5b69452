"""Figures of sub-words: joined pieces, shares beside chance, AUROC by class (chapter 06)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from lnattn.affinity.query_classes import CLASSES, KEYS, ClassAuroc
from lnattn.affinity.subwords import Subwords
from lnattn_book.style import BLUE, GREY, SKY, SMALL, VERMILION, WIDTH, intervals, legend, ring

#: Colours of continuation pieces and of words.
_CLASS = {"continuation": BLUE, "word": VERMILION}
#: Ground and edge of the boxes of a key and of the query that continues it.
_BOXES = (("#d6e8f5", BLUE), ("#fbe3d2", VERMILION))


def joined_pieces(found: Subwords, names: Sequence[str], n: int = 12) -> Figure:
    """The n best examples as two parts of a word that meet, with head, rank and share.

    names: the text of every token of the vocabulary.
    """
    places, pieces = found.examples(n), found.pieces
    figure, (words, bars) = plt.subplots(
        1, 2, figsize=(WIDTH, 0.3 * len(places) + 0.9), sharey=True, width_ratios=(3, 2)
    )
    for row, place in enumerate(places):
        tokens = (pieces.keys[place], pieces.queries[place])
        for token, x, side, (tint, edge) in zip(
            tokens, (-0.02, 0.02), ("right", "left"), _BOXES, strict=True
        ):
            box = {"boxstyle": "round,pad=0.25", "facecolor": tint, "edgecolor": edge, "lw": 0.8}
            words.text(x, row, names[token], ha=side, va="center", bbox=box)
        where = f"head {found.best_head[place]}, rank {found.best_rank[place]}"
        words.text(1.0, row, where, ha="right", va="center", fontsize=SMALL)
        share = pieces.share[place]
        bars.barh(row, share, color=SKY, height=0.6)
        bars.text(share + 0.02, row, f"of {pieces.count[place]}", va="center", fontsize=8)
    words.set(xlim=(-0.55, 1.0), ylim=(len(places) - 0.4, -0.6), xticks=[], yticks=[])
    words.spines[:].set_visible(False)
    words.set_title("key · query", fontsize=SMALL)
    bars.set(xlim=(0, 1.2), xticks=[0, 0.5, 1], yticks=[])
    bars.set_title("key's share of pairs", fontsize=SMALL)
    return figure


def shares_by_head(found: Subwords, ringed: Sequence[int] = (), top: int = 10) -> Figure:
    """Share of pieces whose predecessor is found, head by head and in the best, beside chance."""
    table = found.table(top)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.9))
    chance = table[["chance", "chance low", "chance high"]]
    intervals(ax, table[["found", "low", "high"]], BLUE, "found, 95 % interval", -0.15)
    intervals(ax, chance, GREY, "pieces exchanged: mean and band", 0.15)
    for head in ringed:
        ring(ax, head - 0.15, table["found"].iloc[head], 16)
    ax.set_xticks(range(len(table)), [str(head) for head in table.index])
    ax.set(xlabel="head", ylabel=f"share within rank {top}")
    legend(figure)
    return figure


def class_panels(found: ClassAuroc) -> Figure:
    """AUROC of both classes of queries by head: as it is, among right keys, query-specific."""
    table = found.table()
    panels = (
        ("AUROC, all keys", "all keys", "auroc"),
        ("AUROC, keys of the right class", "right keys", "auroc"),
        ("the same, minus the wrong query", "right keys", "query-specific"),
    )
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 7.2), sharex=True)
    for ax, (title, keys, measure) in zip(axes, panels, strict=True):
        chosen = table[(table["keys"] == keys) & (table["measure"] == measure)]
        for aside, (name, colour) in zip((-0.15, 0.15), _CLASS.items(), strict=True):
            rows = chosen[chosen["queries"] == name][["mean", "low", "high"]]
            intervals(ax, rows, colour, f"{name} queries", aside)
        ax.axhline(0.5 if measure == "auroc" else 0, color=GREY, lw=0.8)
        if measure == "auroc":
            for name, value in zip(CLASSES, found.frequency[:, KEYS.index(keys), 0], strict=True):
                ax.axhline(value, color=_CLASS[name], ls="--", lw=1.2, label=f"{name}: frequency")
        ax.set_title(title)
        ax.set_ylabel("mean AUROC" if measure == "auroc" else "difference")
    axes[-1].set(xlabel="head", xticks=range(len(rows)))
    legend(figure)
    return figure


def over_training(looks: pd.DataFrame) -> Figure:
    """Pieces found while a model is trained, and each head's attention on the previous token.

    looks: tables of looks at first layers, one below the other, with a column 'tokens'.
    """
    best = looks[looks["head"] < 0].sort_values("tokens")
    figure, (found, previous) = plt.subplots(2, 1, figsize=(WIDTH, 5.2), sharex=True)
    for name, colour, low, high in (
        ("found", BLUE, "low", "high"),
        ("chance", GREY, "chance low", "chance high"),
    ):
        millions = best["tokens"] / 1e6
        found.fill_between(millions, best[low], best[high], color=colour, alpha=0.25, lw=0)
        found.plot(millions, best[name], "o-", color=colour, label=name)
    found.set(title="pieces found within rank 10, best head", ylabel="share")
    found.legend()
    for _, head in looks[looks["head"] >= 0].sort_values("tokens").groupby("head"):
        previous.plot(head["tokens"] / 1e6, head["previous"], "o-", color=VERMILION, lw=1.2, ms=4)
    previous.set(title="attention on i − 1 by position alone, each head", ylabel="attention")
    previous.set(xlabel="million tokens of training", xscale="log")
    previous.set_xticks(millions, [f"{float(f'{tokens:.2g}'):g}" for tokens in millions])
    previous.set_xticks([], minor=True)
    return figure
