"""Figures of chapter 08: how much each of the six terms contributes to attention."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from lnattn.attention.terms import TERMS
from lnattn.contribution.study import LEVELS, Contributions
from lnattn_book.figures.position import head_grid
from lnattn_book.style import SEQUENTIAL, TERM_COLOURS, WIDTH, term_label

#: The two mixed terms, which the paper found to matter little, are dashed.
STYLES: Mapping[str, tuple[str, str]] = {
    term: (colour, "--" if term in ("ep", "pe") else "-") for term, colour in TERM_COLOURS.items()
}


def by_position(result: Contributions) -> Figure:
    """Mean over documents and heads against the query's position, with its 95 % interval.

    The counterpart of the paper's Fig. 4. The interval is that of the mean, 1.96 standard errors
    over documents.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2))
    positions = np.arange(result.mean.shape[-1])
    lowest, highest = np.inf, 0.0
    for term, (colour, line) in STYLES.items():
        index = TERMS.index(term)
        mean = result.mean[index, -1]
        half = 1.96 * result.standard_error[index, -1]
        shown = np.isfinite(mean) & (mean > 0)
        lowest, highest = min(lowest, mean[shown].min()), max(highest, mean[shown].max())
        ax.plot(
            positions[shown], mean[shown], color=colour, ls=line, lw=1.4, label=term_label(term)
        )
        low = np.maximum(mean - half, lowest / 100)[shown]
        ax.fill_between(positions[shown], low, (mean + half)[shown], color=colour, alpha=0.18, lw=0)
    ax.set(
        yscale="log",
        ylim=(lowest / 1.5, highest * 1.5),
        xlabel="position i of the query",
        ylabel="contribution (nats)",
    )
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def by_head_and_position(result: Contributions) -> Figure:
    """Mean over documents of every head against the query's position (the paper's Fig. 13)."""
    figure, axes = head_grid(result.n_heads)
    positions = np.arange(result.mean.shape[-1])
    for head, ax in enumerate(axes):
        for term, (colour, line) in STYLES.items():
            mean = result.mean[TERMS.index(term), head]
            shown = np.isfinite(mean) & (mean > 0)
            ax.plot(
                positions[shown], mean[shown], color=colour, ls=line, lw=1, label=term_label(term)
            )
        ax.set_yscale("log")
    figure.supxlabel("position i of the query", fontsize=11)
    figure.supylabel("contribution (nats)", fontsize=11)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def by_head(result: Contributions) -> Figure:
    """Mean contribution of every term in every head, and in the mean of heads, as numbers."""
    means = result.grand_mean()
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    shown = np.ma.masked_less_equal(means, 0)
    image = ax.imshow(shown, cmap=SEQUENTIAL, norm=LogNorm(), aspect="auto")
    ax.set_yticks(range(len(TERMS)), [term_label(term) for term in TERMS])
    heads = [str(head) for head in range(result.n_heads)]
    ax.set_xticks(range(result.n_heads + 1), [*heads, "all"])
    ax.axvline(result.n_heads - 0.5, color="white", lw=3)
    ax.set_xlabel("head")
    if result.n_heads <= 8:
        middle = np.exp(np.log(shown.compressed()).mean())
        for (row, column), value in np.ndenumerate(means):
            colour = "white" if value < middle else "black"
            text = f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"
            text = text.removeprefix("0")
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=ax, location="top", aspect=40, label="mean contribution (nats)")
    return figure


def spread(result: Contributions) -> Figure:
    """How contributions are spread: median, middle half, middle 95 %, and the mean as a cross.

    Over documents and positions, of the mean of heads.
    """
    order = sorted(TERMS, key=lambda term: result.grand_mean()[TERMS.index(term), -1])
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2))
    levels = list(LEVELS)
    for row, term in enumerate(order):
        index = TERMS.index(term)
        at = {level: result.overall[levels.index(level), index, -1] for level in levels}
        colour = STYLES[term][0]
        ax.plot([at[0.025], at[0.975]], [row, row], color=colour, lw=2)
        ax.plot([at[0.25], at[0.75]], [row, row], color=colour, lw=9, solid_capstyle="butt")
        ax.plot(at[0.5], row, "o", color="white", markeredgecolor="black", ms=7, zorder=3)
        ax.plot(result.grand_mean()[index, -1], row, "x", color="black", ms=7, mew=2, zorder=4)
    ax.set_yticks(range(len(order)), [term_label(term) for term in order])
    ax.set(xscale="log", xlabel="contribution, mean of heads (nats)")
    ax.xaxis.grid(True)
    return figure


def conventions(means: Mapping[str, np.ndarray]) -> Figure:
    """The six terms under several conventions: share of the sum of the six, one line a term.

    means: for each convention, the six mean contributions over all heads.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 4.4))
    places = np.arange(len(means))
    shares = np.stack([values / values.sum() for values in means.values()])
    for term, (colour, line) in STYLES.items():
        column = shares[:, TERMS.index(term)]
        ax.plot(places, column, color=colour, ls=line, marker="o", label=term_label(term))
    ax.set_xticks(places, list(means))
    ax.set(yscale="log", ylabel="share of the sum of the six", xlim=(-0.2, len(means) - 0.8))
    ticks = [value for value in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if value >= shares.min() * 0.7]
    ax.set_yticks(ticks, [f"{value:.0%}" for value in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.grid(True)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


__all__ = ["STYLES", "by_head", "by_position", "conventions", "spread"]
