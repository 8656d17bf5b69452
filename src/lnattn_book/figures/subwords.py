"""Figures of sub-words: joined pieces, and shares beside chance (chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from lnattn.affinity.subwords import Subwords
from lnattn_book.page.style import BLUE, GREY, SMALL, VERMILION, WIDTH, intervals, legend, ring

#: Ground and edge of the boxes of a key and of the query that continues it.
_BOXES = (("#d6e8f5", BLUE), ("#fbe3d2", VERMILION))


def joined_pieces(subwords: Subwords, names: Sequence[str], n: int = 12) -> Figure:
    """The n best examples as two parts of a word that meet, with head, rank and share.

    names: the text of every token of the vocabulary.
    """
    places = subwords.examples(n)
    pieces = subwords.pieces
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
        where = f"head {subwords.best_head[place]}, rank {subwords.best_rank[place]}"
        words.text(1.0, row, where, ha="right", va="center", fontsize=SMALL)
        share = pieces.share[place]
        bars.barh(row, share, color=GREY, alpha=0.5, height=0.6)
        bars.text(share + 0.02, row, f"of {pieces.count[place]}", va="center", fontsize=8)
    words.set(xlim=(-0.55, 1.0), ylim=(len(places) - 0.4, -0.6), xticks=[], yticks=[])
    words.spines[:].set_visible(False)
    words.set_title("key · query", fontsize=SMALL)
    bars.set(xlim=(0, 1.2), xticks=[0, 0.5, 1], yticks=[])
    bars.set_title("key's share of pairs", fontsize=SMALL)
    return figure


def shares_by_head(subwords: Subwords, ringed: Sequence[int] = (), top: int = 10) -> Figure:
    """Share of pieces whose predecessor is found, head by head and in the best, beside chance."""
    table = subwords.table(top)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.9))
    chance = table[["chance", "chance low", "chance high"]]
    intervals(ax, table[["found", "low", "high"]], BLUE, "found, 95 % interval", -0.15)
    intervals(ax, chance, GREY, "pieces exchanged: mean", 0.15)
    for head in ringed:
        ring(ax, head - 0.15, table["found"].iloc[head], 16)
    ax.set_xticks(range(len(table)), [str(head) for head in table.index])
    ax.set(xlabel="head", ylabel=f"share within rank {top}")
    legend(figure)
    return figure
