"""Rotary first layers, drawn: distance alone, pairs over distance, shares, skill (chapter 13)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import softmax

from lnattn.rotary.affinity import DistanceGrid
from lnattn.rotary.position import ByDistance
from lnattn.rotary.study import RotaryStudy
from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn_book.figures.position import head_grid
from lnattn_book.style import (
    BLUE,
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    GREY,
    PALETTE,
    SINGLE,
    WIDTH,
    model_name,
)
from lnattn_book.twins import Twin

#: The two models of `Twin`, as panels are headed.
TWINS = ("rotary positions", "learned positions")


def distance_alone(study: RotaryStudy) -> Figure:
    """The term d of every head over the distance, beside that of weights dealt anew."""
    figure, axes = head_grid(study.n_heads, share_y=True)
    for head, ax in enumerate(axes):
        for curve, colour, label in (
            (study.null_curve[head], GREY, "weights dealt anew"),
            (study.curve[head], DISTANCE_COLOURS["d"], "the model"),
        ):
            ax.plot(curve - curve.mean(), color=colour, label=label)
    figure.supxlabel("distance Δ from query to key")
    figure.supylabel("$T^d$ / scale, less its mean")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def shares(study: RotaryStudy) -> Figure:
    """How the variance of scores divides between the four terms, for each head."""
    figure, ax = plt.subplots(figsize=SINGLE)
    bottom = np.zeros(study.n_heads)
    for name, row in zip(DISTANCE_TERMS, study.share, strict=True):
        ax.bar(
            range(study.n_heads),
            row,
            bottom=bottom,
            color=DISTANCE_COLOURS[name],
            label=DISTANCE_NAMES[name],
        )
        bottom += row
    ax.set_xticks(range(study.n_heads))
    ax.set_xlabel("head")
    ax.set_ylabel("share of the variance")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def pairs_over_distance(study: RotaryStudy, most: int = 6) -> Figure:
    """T^ee of some names over the distance, each in the head that ranks it best."""
    figure, ax = plt.subplots(figsize=SINGLE)
    best = study.pair_ranks.argmin(axis=1)
    order = study.pair_ranks.min(axis=1).argsort(kind="stable")[:most]
    for colour, row in zip(PALETTE, order, strict=False):
        first, second = study.pairs[row]
        head = best[row]
        ax.plot(
            study.pair_curves[row, head], color=colour, label=f"{second} ← {first}, head {head}"
        )
    ax.axvline(1, color=GREY, linewidth=0.8, zorder=0)
    ax.set_xlabel("distance Δ from query to key")
    ax.set_ylabel("$T^{ee}$ / scale")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def skill(study: RotaryStudy) -> Figure:
    """AUROC less that of a wrong query, one token apart, with its interval, for each head."""
    figure, ax = plt.subplots(figsize=SINGLE)
    _skill(ax, study.grid)
    return figure


def twins_skill(study: RotaryStudy, twin: Twin) -> Figure:
    """The same for two models on the same query tokens: rotary left, learned positions right."""
    figure, axes = plt.subplots(1, 2, figsize=SINGLE, sharey=True)
    for ax, grid, title in zip(axes, (study.grid, twin.grid), TWINS, strict=True):
        _skill(ax, grid)
        ax.set_title(title)
    axes[1].set_ylabel("")
    return figure


def twins_by_distance(twin: Twin) -> Figure:
    """Attention by distance alone, or by position alone, on the nearest keys; a line a head.

    The axis is logarithmic: a sharp head has a hundred times what even attention gives a key.
    """
    return _nearness(dict(zip(TWINS, (twin.rotary_attention, twin.attention), strict=True)))


def nearness(models: Mapping[str, ByDistance], far: int = 33) -> Figure:
    """Attention by distance alone on the nearest keys, a panel a model, a line a head."""
    return _nearness({name: softmax(one.curve, axis=1)[:, :far].T for name, one in models.items()})


def _nearness(models: Mapping[str, Float[np.ndarray, "distance head"]]) -> Figure:
    figure, axes = plt.subplots(1, len(models), figsize=(WIDTH, 4.2), sharey=True, squeeze=False)
    for ax, (title, found) in zip(axes[0], models.items(), strict=True):
        for head, curve in enumerate(found.T):
            ax.plot(curve, color=PALETTE[head % len(PALETTE)], label=f"head {head}")
        ax.set_title(model_name(title))
        ax.set_yscale("log")
        ax.set_xlabel("distance Δ to the key")
    axes[0, 0].set_ylabel("share of the attention")
    most = max(axes[0], key=lambda ax: len(ax.lines))  # all heads of the model that has most
    figure.legend(*most.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _skill(ax: Axes, grid: DistanceGrid) -> None:
    mean, low, high = grid.interval().T
    heads = np.arange(len(mean))
    ax.errorbar(heads, mean, yerr=[mean - low, high - mean], fmt="o", color=BLUE, capsize=3)
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    ax.set_xticks(heads)
    ax.set_xlabel("head")
    ax.set_ylabel("AUROC less a wrong query's")
