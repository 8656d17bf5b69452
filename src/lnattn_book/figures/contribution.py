"""Figures of chapter 6: how much each of the six terms contributes to attention."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from lnattn.attention.terms import TERMS
from lnattn.contribution.study import Contributions
from lnattn_book.page.style import (
    SEQUENTIAL,
    TERM_COLOURS,
    TERM_NAMES,
    WIDTH,
    legend,
    ring,
    term_label,
)


def by_position(result: Contributions) -> Figure:
    """Mean over documents and heads against the query's position, with its 95 % interval.

    The counterpart of the paper's Fig. 4. The interval is that of the mean, 1.96 standard errors
    over documents. The two mixed terms, which the paper found to matter little, are dashed.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2))
    positions = np.arange(result.mean.shape[-1])
    lowest = np.inf
    highest = 0.0
    for term, colour in TERM_COLOURS.items():
        line = "--" if term in ("ep", "pe") else "-"
        index = TERMS.index(term)
        mean = result.mean[index, -1]
        half = 1.96 * result.standard_error[index, -1]
        shown = np.isfinite(mean) & (mean > 0)
        if not shown.any():  # a term that is constant over keys, as T^e is without a query bias
            continue
        lowest = min(lowest, mean[shown].min())
        highest = max(highest, mean[shown].max())
        label = term_label(term)
        ax.plot(positions[shown], mean[shown], line, color=colour, lw=1.4, label=label)
        low = np.maximum(mean - half, lowest / 100)[shown]
        ax.fill_between(positions[shown], low, (mean + half)[shown], color=colour, alpha=0.18, lw=0)
    ax.set(yscale="log", ylim=(lowest / 1.5, highest * 1.5))
    ax.set(xlabel="position i of the query", ylabel="contribution (nats)")
    legend(figure)
    return figure


def by_head(result: Contributions) -> Figure:
    """Mean contribution of every term in every head, and in the mean of heads, as numbers.

    The largest of a single head is ringed.
    """
    means = result.grand_mean()
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    shown = np.ma.masked_less_equal(means, 0)
    image = ax.imshow(shown, cmap=SEQUENTIAL, norm=LogNorm(), aspect="auto")
    ax.set_yticks(range(len(TERMS)), [TERM_NAMES[term] for term in TERMS])
    heads = [str(head) for head in range(result.n_heads)]
    ax.set_xticks(range(result.n_heads + 1), [*heads, "all"])
    ax.axvline(result.n_heads - 0.5, color="white", lw=3)
    ax.set_xlabel("head")
    middle = np.exp(np.log(shown.compressed()).mean())
    for (row, column), value in np.ndenumerate(means):
        colour = "white" if value < middle else "black"
        text = f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"
        text = text.removeprefix("0")
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    row, column = np.unravel_index(means[:, :-1].argmax(), means[:, :-1].shape)
    ring(ax, int(column), int(row), 24)
    figure.colorbar(image, ax=ax, location="top", aspect=40, label="mean contribution (nats)")
    return figure
