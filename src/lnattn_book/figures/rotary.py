"""Rotary first layers, drawn: distance alone and shares (chapter 12)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from lnattn.rotary.position import attention_of_curve
from lnattn.rotary.terms import DISTANCE_TERMS
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


def distance_alone(study: RotaryStudy, named: int = 4, far: int = 100) -> Figure:
    """The term d of every head over the distance, beside that of weights in random order.

    named: how many heads have lines of their own, those in which the term counts most; far: the
    last distance that is shown. Distances are logarithmic beyond 1.
    """
    figure, ax = plt.subplots(figsize=SINGLE)
    curves = study.by_distance.curve - study.by_distance.curve.mean(axis=1, keepdims=True)
    null_curves = study.by_distance.null_curve
    null_curves = null_curves - null_curves.mean(axis=1, keepdims=True)
    most = set(study.by_distance.alone.argsort()[-named:].tolist())
    dashes = cycle(("-", "--", ":", "-."))
    for head, curve in enumerate(curves):
        (line,) = ax.plot(curve, color=DISTANCE_COLOURS["d"], linewidth=0.7)
        if head in most:
            line.set(linestyle=next(dashes), linewidth=1.8, label=f"head {head}")
    ax.plot(null_curves[0], color=GREY, label="weights in random order")
    ax.plot(null_curves[1:].T, color=GREY)
    previous = attention_of_curve(study.by_distance.curve, study.by_distance.sinks)[:, 1].argmax()
    ring(ax, 1, curves[previous, 1])
    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ax.set_xlim(-0.2, far)
    ticks = [tick for tick in (0, 1, 2, 5, 10, 20, 50, 100) if tick <= far]
    ax.set_xticks(ticks, ticks)
    ax.set(xlabel="distance Δ from query to key", ylabel="$T^d$ / scale, less its mean")
    legend(figure, columns=3)
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
