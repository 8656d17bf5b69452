"""Heat maps of the six terms and of what they add up to (chapter 05)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lnattn.attention.terms import TERMS, SixTerms
from lnattn_book.style import DIVERGING, HIDDEN, SEQUENTIAL, TERM_COLOURS, WIDTH, term_label


def six_heat_maps(terms: SixTerms, head: int, labels: Sequence[str]) -> Figure:
    """The six terms of one head over a sentence, centred on each row, on one colour scale.

    A constant per query means nothing to the softmax, so every row is shown minus its mean over
    the keys that the query can see: what remains is what the term does.
    """
    panels = {name: centred_rows(terms[name][head].numpy()) for name in TERMS}
    limit = max(float(np.nanmax(np.abs(panel))) for panel in panels.values())
    figure, axes = plt.subplots(3, 2, figsize=(WIDTH, 8.4), sharex=True, sharey=True)
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=True):
        image = ax.imshow(panel, cmap=DIVERGING, vmin=-limit, vmax=limit)
        ax.set_title(term_label(name))
        ax.set_facecolor(HIDDEN)
        plt.setp(ax.spines.values(), visible=True, color=TERM_COLOURS[name], lw=2)
        _label(ax, labels)
    figure.supxlabel("key token")
    figure.supylabel("query token")
    figure.colorbar(
        image, ax=axes, location="top", aspect=40, label="term minus its mean over the row"
    )
    return figure


def sum_beside_model(
    folded: np.ndarray, model: np.ndarray, labels: Sequence[str], head: int
) -> Figure:
    """Attention of one head from the six terms, beside the attention that the model reports."""
    top = float(model[1:].max()) if len(model) > 1 else 1.0  # the first token has no choice
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6), sharey=True)
    for ax, panel, title in zip(axes, (folded, model), ("six terms", "Hugging Face"), strict=True):
        image = ax.imshow(without_hidden(panel), cmap=SEQUENTIAL, vmin=0, vmax=top)
        ax.set_facecolor(HIDDEN)
        ax.set_title(title)
        _label(ax, labels)
        ax.set_xlabel("key token")
    axes[0].set_ylabel("query token")
    figure.colorbar(
        image, ax=axes, location="top", aspect=40, label=f"attention weight, head {head}"
    )
    return figure


def term_sizes(sizes: np.ndarray) -> Figure:
    """How much each term varies over the keys of a query (standard deviation), per head."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2))
    image = ax.imshow(sizes, cmap=SEQUENTIAL, aspect="auto")
    ax.set_xticks(range(sizes.shape[1]))
    ax.set_yticks(range(len(TERMS)), [term_label(name) for name in TERMS])
    ax.set(xlabel="head")
    figure.colorbar(image, label="spread over the keys / √d′")
    return figure


def centred_rows(panel: np.ndarray) -> np.ndarray:
    """Rows minus their mean over the visible keys; NaN above the diagonal."""
    hidden = np.triu(np.ones(panel.shape, dtype=bool), k=1)
    visible = np.where(hidden, np.nan, panel)
    return visible - np.nanmean(visible, axis=1, keepdims=True)


def without_hidden(attention: np.ndarray) -> np.ndarray:
    """Attention with NaN for later keys, which no query sees; all of it where some do."""
    later = np.triu(np.ones(attention.shape, dtype=bool), k=1)
    return attention if attention[later].any() else np.where(later, np.nan, attention)


def _label(ax: plt.Axes, labels: Sequence[str]) -> None:
    ticks = range(len(labels))
    ax.set_xticks(ticks, labels, rotation=90, fontsize=8)
    ax.set_yticks(ticks, labels, fontsize=8)
    ax.tick_params(length=0)
