"""Variances of embeddings, the first-token switch, and token frequency (chapter 7)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from lnattn_book.chapters.variance import Chance, against_even
from lnattn_book.page.style import (
    BLACK,
    GREY,
    SEQUENTIAL,
    SINGLE,
    TERM_COLOURS,
    WIDTH,
    legend,
    ring,
    term_label,
    words_at,
)
from lnattn_book.studies.first_token import FirstTokenSwitch
from lnattn_book.studies.variance import FrequencyStudy


def position_variance(variance: Float[np.ndarray, "position"]) -> Figure:
    """Var(p_j) over the context, on a logarithmic scale (Fig. 6 right)."""
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    ax.plot(np.arange(len(variance)), variance, color=BLACK, linewidth=1.3)
    last = len(variance) - 1
    ax.plot([0, last], variance[[0, last]], "o", color=BLACK)
    # Left of the last point, or above it where the curve runs on to it.
    aside = (-8, -3) if variance[-1] < variance[-9:-1].min() / 2 else (2, 9)
    words_at(ax, "j = 0", (0, variance[0]), (7, -3))
    words_at(ax, f"j = {last}", (last, variance[last]), aside, ha="right")
    ax.set(yscale="log", xlabel="position j", ylabel=r"Var($p_j$)")
    return figure


def first_token(switch: FirstTokenSwitch) -> Figure:
    """Mean attention on position 0, with its own σ and with the median σ, head by head.

    Heads in which its own σ draws attention there are ringed.
    """
    figure, ax = plt.subplots(figsize=SINGLE)
    true = switch.true.mean(axis=(0, 2))
    median = switch.median.mean(axis=(0, 2))
    heads = np.arange(len(true))
    drawn = switch.amplification() > 1
    ax.vlines(heads, median, true, color=BLACK, linewidth=1)
    ax.plot(heads, true, "o", color=BLACK, label=r"its own $\sigma_0$")
    ax.plot(heads, median, "s", color=GREY, markerfacecolor="white", label=r"an ordinary $\sigma$")
    for head in heads[drawn]:
        ring(ax, head, true[head])
    ax.set(yscale="log", xlabel="head", ylabel="mean attention on position 0", xticks=heads)
    legend(figure)
    return figure


def amplified(switch: FirstTokenSwitch) -> Figure:
    """How many times more attention position 0 gets with its own σ than with the median one."""
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    times = switch.amplification()
    heads = np.arange(len(times))
    ax.vlines(heads, 1, times, color=BLACK, linewidth=1)
    ax.plot(heads, times, "o", color=BLACK)
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set(yscale="log", xlabel="head", ylabel="times as much\nattention on position 0")
    ax.set_xticks(heads)
    ax.yaxis.set_major_formatter("{x:g}")
    return figure


def fading_sinks(
    own: Float[np.ndarray, "head query"],
    ordinary: Float[np.ndarray, "head query"],
    bold: Sequence[int],
    named: Sequence[int],
) -> Figure:
    """Attention on position 0 against even attention, over the query, with either σ_0.

    own, ordinary: of queries 1, 2, …; bold: heads drawn in black; named: heads drawn dashed and
    named, the others are thin and grey.
    """
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), sharex=True, sharey=True)
    titles = (r"with its own $\sigma_0$", r"with an ordinary $\sigma$")
    for ax, attention, title in zip(axes, (own, ordinary), titles, strict=True):
        queries = np.arange(attention.shape[-1]) + 1
        for head, curve in enumerate(against_even(attention)):
            strong = head in (*bold, *named)
            ax.plot(
                queries,
                curve,
                "--" if head in named else "-",
                color=BLACK if strong else GREY,
                linewidth=1.5 if strong else 0.7,
                zorder=3 if strong else 2,
            )
            if head in named:
                top = curve.argmax()
                words_at(ax, f"head {head}", (queries[top], curve[top]), (4, 4), ha="right")
        ax.axhline(1, color=BLACK, linewidth=0.8, linestyle=":")
        ax.set(xscale="log", yscale="log", ylim=(1e-3, 2e3), title=title)
    words_at(axes[0], "even", (queries[0], 1), (2, 3))
    axes[0].set_ylabel("attention on position 0,\ntimes the number of keys")
    figure.supxlabel("place of the query", fontsize=11)
    return figure


def self_assertion(study: FrequencyStudy, chance: Chance) -> Figure:
    """T^e and frequency: one head's tokens, and the rank correlation of all heads (Fig. 5 and 11).

    Left: the head with the strongest correlation. Right: |ρ| of every head, above the band of what
    heads with shuffled weights reach, and the line that the strongest of a layer of them reaches.
    """
    sizes = np.array([abs(correlation.rho) for correlation in study.head_correlations])
    strongest = int(sizes.argmax())
    figure, (cloud, heads) = plt.subplots(1, 2, figsize=(WIDTH, 3.7))
    cells = _density(cloud, study.counts, study.asserted[strongest])
    _key_to(cells, cloud)
    rho = f"{study.head_correlations[strongest].rho:.2f}".replace("-", "−")
    cloud.set_title(f"head {strongest}: ρ = {rho}", fontsize=10)
    cloud.set(xlabel="occurrences", ylabel=term_label("e"))
    heads.axhspan(0, chance.head, color=GREY, alpha=0.3, lw=0)
    heads.axhline(chance.strongest, color=GREY, linestyle="--", linewidth=1)
    heads.plot(np.arange(len(sizes)), sizes, "o", color=TERM_COLOURS["e"])
    words_at(heads, "shuffled heads", (0, chance.head), (-4, -12))
    words_at(heads, "the best of them", (0, chance.strongest), (-4, 3))
    heads.set_title("all heads", fontsize=10)
    heads.set(xlabel="head", ylabel="|ρ| with the count", ylim=(0, max(0.6, sizes.max() + 0.05)))
    heads.set_xticks(np.arange(len(sizes)))
    return figure


def _key_to(cells: PolyCollection, ax: Axes) -> None:
    """How many tokens the colours of a panel mean, below it."""
    bar = ax.figure.colorbar(cells, ax=ax, location="bottom", aspect=25, label="tokens in a cell")
    bar.ax.xaxis.set_major_formatter("{x:g}")
    bar.ax.minorticks_off()


def _density(ax: Axes, counts: np.ndarray, values: np.ndarray) -> PolyCollection:
    """A hexagonal histogram over log counts, with the median of each eighth of the tokens."""
    scales = {"xscale": "log", "bins": "log"}
    cells = ax.hexbin(
        counts, values, gridsize=35, mincnt=1, cmap=SEQUENTIAL, linewidths=0, **scales
    )
    table = pd.DataFrame({"count": counts, "value": values})
    with np.errstate(under="ignore"):  # pandas puts the first edge just below the least
        eighths = pd.qcut(table["count"], 8, duplicates="drop")
    medians = table.groupby(eighths, observed=True).median()
    look = {"color": BLACK, "markersize": 3.5, "linewidth": 1.3, "label": "medians"}
    ax.plot(medians["count"], medians["value"], "o-", **look)
    return cells
