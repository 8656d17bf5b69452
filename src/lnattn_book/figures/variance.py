"""Variances of embeddings, token frequency, and the first-token switch (chapter 09)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn.position.first_token import FirstTokenSwitch
from lnattn.position.variance import FrequencyStudy
from lnattn_book.figures.position import head_grid
from lnattn_book.style import (
    BLACK,
    BLUE,
    PALETTE,
    SEQUENTIAL,
    SINGLE,
    VERMILION,
    WIDTH,
    legend,
    ring,
    words_at,
)


def position_variances(models: Mapping[str, Float[np.ndarray, "position"]]) -> Figure:
    """Var(p_j) over the context, one panel a model, on a logarithmic scale (Fig. 6 right)."""
    size = (WIDTH, 1.2 + 1.9 * len(models))
    figure, axes = plt.subplots(len(models), 1, figsize=size, squeeze=False)
    for ax, (name, variance) in zip(axes.flat, models.items(), strict=True):
        ax.plot(np.arange(len(variance)), variance, color=BLUE, linewidth=1.3)
        last = len(variance) - 1
        ax.plot([0, last], variance[[0, last]], "o", color=VERMILION)
        # Left of the last point, or above it where the curve runs on to it.
        aside = (-8, -3) if variance[-1] < variance[-9:-1].min() / 2 else (2, 9)
        words_at(ax, "j = 0", (0, variance[0]), (7, -3))
        words_at(ax, f"j = {last}", (last, variance[last]), aside, ha="right")
        ax.set_yscale("log")
        ax.set_title(name)
    figure.supxlabel("position j", fontsize=11)
    figure.supylabel(r"Var($p_j$)", fontsize=11)
    return figure


def token_variance(studies: Mapping[str, FrequencyStudy]) -> Figure:
    """Var(e_v) against the number of occurrences, a panel a model, with medians (Fig. 6 left)."""
    figure, axes = plt.subplots(1, len(studies), figsize=(WIDTH, 3.2), squeeze=False)
    for ax, (name, study) in zip(axes[0], studies.items(), strict=True):
        _density(ax, study.counts, study.variance, log_y=True)
        rho = f"{study.variance_correlation.rho:+.2f}".replace("-", "−")
        ax.set_title(f"{name}:  ρ = {rho}")
    figure.supxlabel("occurrences in the counted text", fontsize=11)
    figure.supylabel(r"Var($e_v$)", fontsize=11)
    return figure


def self_assertion(study: FrequencyStudy) -> Figure:
    """T^e of every head against the number of occurrences (Fig. 5 and 11)."""
    heads = len(study.asserted)
    titles = [
        f"head {head}:  ρ = {found.rho:.2f}".replace("-", "−")
        for head, found in enumerate(study.head_correlations)
    ]
    figure, axes = head_grid(range(heads), share_y=False, titles=titles)
    for head, ax in enumerate(axes):
        _density(ax, study.counts, study.asserted[head], log_y=False)
    figure.supxlabel("occurrences in the counted text", fontsize=11)
    figure.supylabel(r"$T^e$ (token asserts itself)", fontsize=11)
    return figure


def first_token(switch: FirstTokenSwitch) -> Figure:
    """Mean attention on position 0, with its own σ and with the median σ, head by head.

    Heads in which its own σ draws attention there are ringed.
    """
    figure, ax = plt.subplots(figsize=SINGLE)
    true, median = (one.mean(axis=(0, 2)) for one in (switch.true, switch.median))
    heads, drawn = np.arange(len(true)), switch.amplification() > 1
    ax.vlines(heads, median, true, color=BLACK, linewidth=1)
    ax.plot(heads, true, "o", color=VERMILION, label=r"its own $\sigma$")
    ax.plot(heads, median, "s", color=BLUE, markerfacecolor="white", label=r"median $\sigma$")
    for head in heads[drawn]:
        ring(ax, head, true[head])
    ax.set(yscale="log", xlabel="head", ylabel="mean attention on position 0", xticks=heads)
    legend(figure)
    return figure


def _density(ax: Axes, counts: np.ndarray, values: np.ndarray, log_y: bool) -> None:
    """A hexagonal histogram over log counts, with the median of each eighth of the tokens."""
    scales = {"xscale": "log", "yscale": "log" if log_y else "linear", "bins": "log"}
    ax.hexbin(counts, values, gridsize=35, mincnt=1, cmap=SEQUENTIAL, linewidths=0, **scales)
    edges = np.unique(np.quantile(counts, np.linspace(0, 1, 9)))
    groups = np.clip(np.digitize(counts, edges[1:-1]), 0, len(edges) - 2)
    present = np.unique(groups)
    x = [np.median(counts[groups == group]) for group in present]
    y = [np.median(values[groups == group]) for group in present]
    ax.plot(x, y, "o-", color=PALETTE[1], markersize=3.5, linewidth=1.3, label="medians")
