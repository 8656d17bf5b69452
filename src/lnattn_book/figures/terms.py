"""Heat maps of the six terms and of what they add up to (chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lnattn.attention.terms import TERMS, SixTerms
from lnattn_book.page.style import (
    BLACK,
    DIVERGING_BESIDE_TERMS,
    GREY,
    HIDDEN,
    SEQUENTIAL,
    SMALL,
    TERM_COLOURS,
    WIDTH,
    term_label,
    words_at,
)
from lnattn_book.page.style import ring as encircle

_UNSEEN = "#c8c8c8"


def six_heat_maps(
    terms: SixTerms,
    head: int,
    labels: Sequence[str],
    ring: tuple[int, int] | None = None,
    causal: bool = True,
) -> Figure:
    """The six terms of one head over a sentence, centred on each row, on one colour scale.

    A constant per query means nothing to the softmax, so every row is shown minus its mean over
    the keys that the query can see: what remains is what the term does. ring: query and key of the
    cell that the text speaks of.
    """
    panels = {name: centred_rows(terms[name][head].numpy(), causal) for name in TERMS}
    limit = max(float(np.nanmax(np.abs(panel))) for panel in panels.values())
    figure, axes = plt.subplots(3, 2, figsize=(WIDTH, 8.2), sharex=True, sharey=True)
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=True):
        image = ax.imshow(panel, cmap=DIVERGING_BESIDE_TERMS, vmin=-limit, vmax=limit)
        ax.set_title(term_label(name), fontsize=SMALL)
        ax.set_facecolor(HIDDEN)
        plt.setp(ax.spines.values(), visible=True, color=TERM_COLOURS[name], lw=2)
        if ring is not None:
            encircle(ax, ring[1], ring[0])
        ax.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)
        ax.set_yticks(range(len(labels)), labels, fontsize=8)
        ax.tick_params(length=0)
    figure.supxlabel("key token")
    figure.supylabel("query token")
    words = "term minus its mean over the row"
    figure.colorbar(image, ax=axes, location="top", aspect=40, label=words)
    return figure


def one_pair(
    lifts: Mapping[str, float], attention: np.ndarray, key: int, labels: Sequence[str]
) -> Figure:
    """What each term adds to one pair's score, their sum, and the attention of the whole row.

    lifts: term → its value at the key minus its mean over the row, over √d′; attention: [key].
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    rows = {term_label(name): (value, TERM_COLOURS[name]) for name, value in lifts.items()}
    rows["sum"] = (sum(lifts.values()), BLACK)
    for place, (value, colour) in enumerate(rows.values()):
        left.barh(place, value, color=colour, height=0.7)
        words_at(left, f"{value:+.1f}".replace("-", "−"), (max(value, 0), place), (4, -3))
    left.axvline(0, color=GREY, lw=0.8)
    left.set_yticks(range(len(rows)), list(rows), fontsize=SMALL)
    left.invert_yaxis()
    left.margins(x=0.25)
    left.set(title="above its row’s mean", xlabel="in the softmax’s argument")
    colours = [BLACK if place == key else _UNSEEN for place in range(len(attention))]
    right.barh(range(len(attention)), attention, color=colours, height=0.8)
    words_at(right, f"{attention[key]:.0%}", (attention[key], key), (4, -3))
    right.set_yticks(range(len(attention)), labels, fontsize=8)
    right.invert_yaxis()
    right.set(title="attention", xlim=(0, 1))
    return figure


def term_sizes(sizes: np.ndarray) -> Figure:
    """How much each term varies over the keys of a query, as shares of what a head's terms do.

    Ringed: the largest share.
    """
    shares = sizes / sizes.sum(axis=0)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2))
    image = ax.imshow(shares, cmap=SEQUENTIAL, aspect="auto", vmin=0)
    term, head = np.unravel_index(shares.argmax(), shares.shape)
    encircle(ax, head, term, 15)
    ax.set_xticks(range(sizes.shape[1]))
    ax.set_yticks(range(len(TERMS)), [term_label(name) for name in TERMS])
    ax.set(xlabel="head")
    figure.colorbar(image, label="share of the spread over keys")
    return figure


def centred_rows(panel: np.ndarray, causal: bool = True) -> np.ndarray:
    """Rows minus their mean over the visible keys; NaN above the diagonal of a causal model."""
    hidden = np.triu(np.ones(panel.shape, dtype=bool), k=1)
    visible = np.where(hidden & causal, np.nan, panel)
    return visible - np.nanmean(visible, axis=1, keepdims=True)
