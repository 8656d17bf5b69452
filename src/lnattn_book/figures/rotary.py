"""Rotary first layers, drawn: distance alone and shares (chapter 12)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from lnattn.rotary.position import attention_of_curve
from lnattn.rotary.terms import DISTANCE_TERMS
from lnattn_book.figures.position import head_grid
from lnattn_book.page.style import (
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    GREY,
    ROSE,
    SINGLE,
    VIOLET,
    WIDTH,
    legend,
    ring,
)
from lnattn_book.studies.distance_terms import RotaryStudy


def distance_alone(study: RotaryStudy) -> Figure:
    """The term d of every head over the distance, beside that of weights in random order."""
    figure, axes = head_grid(range(study.n_heads))
    for head, ax in enumerate(axes):
        for curve, colour, label in (
            (study.by_distance.null_curve[head], GREY, "weights in random order"),
            (study.by_distance.curve[head], DISTANCE_COLOURS["d"], "the model"),
        ):
            ax.plot(curve - curve.mean(), color=colour, label=label)
    alone = attention_of_curve(study.by_distance.curve, study.by_distance.sinks)
    previous = alone[:, 1].argmax()
    ring(
        axes[previous],
        1,
        (study.by_distance.curve[previous] - study.by_distance.curve[previous].mean())[1],
    )
    figure.supxlabel("distance Δ from query to key")
    figure.supylabel("$T^d$ / scale, less its mean")
    legend(figure)
    return figure


def rotation(theta: float, places: Sequence[tuple[int, int]]) -> Figure:
    """A query and a key of one plane, turned as at pairs of positions: a circle for each pair."""
    figure, axes = plt.subplots(1, len(places), figsize=(WIDTH, 3.4))
    own_angle = {"query": 0.5, "key": -0.15}
    for ax, (query, key) in zip(axes, places, strict=True):
        ax.add_patch(Circle((0, 0), 1, fill=False, color=GREY, linewidth=0.8))
        positions = {"query": query, "key": key}
        for (name, position), colour in zip(positions.items(), (VIOLET, ROSE), strict=True):
            angle = own_angle[name] + position * theta
            tip = (np.cos(angle), np.sin(angle))
            style = {"arrowstyle": "-|>", "color": colour, "linewidth": 2}
            ax.annotate("", tip, (0, 0), arrowprops=style)
            at = 1.28 * np.array(tip)
            ax.text(*at, f"{name}\nat {position}", ha="center", va="center", color=colour)
        ax.set(xlim=(-1.7, 1.7), ylim=(-1.6, 1.6), xticks=[], yticks=[], aspect="equal")
        ax.spines[:].set_visible(False)
        ax.set_title(f"positions {query} and {key}: Δ = {query - key}", loc="center")
    return figure


def shares(study: RotaryStudy) -> Figure:
    """How the variance of scores divides between the four terms, for each head."""
    figure, ax = plt.subplots(figsize=SINGLE)
    table = pd.DataFrame(study.by_distance.share.T, columns=DISTANCE_TERMS)
    colours = [DISTANCE_COLOURS[name] for name in DISTANCE_TERMS]
    look = {"color": colours, "width": 0.8, "rot": 0, "legend": False}
    table.rename(columns=DISTANCE_NAMES).plot.bar(stacked=True, ax=ax, **look)
    ax.set(xlabel="head", ylabel="share of the variance")
    legend(figure)
    return figure
