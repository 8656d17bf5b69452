"""A drawing of chapter 2: which part of LayerNorm and query map goes where in folding."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn_book.page.style import BLACK, GREY, ROSE, VIOLET, WIDTH

#: What each box does, its colour, and the box of the other row that it becomes part of.
_BEFORE = (
    ("$x$", BLACK, 0),
    ("− mean", VIOLET, 2),
    ("÷ σ", GREY, 1),
    ("× γ", VIOLET, 2),
    ("+ β", ROSE, 3),
    ("× $W^Q$", VIOLET, 2),
    ("+ $b^Q$", ROSE, 3),
)
_AFTER = (("$x$", BLACK), ("÷ σ", GREY), ("× $W'^Q$", VIOLET), ("+ $b'^Q$", ROSE))


def where_the_parts_go() -> Figure:
    """Two rows of boxes, before and after folding, joined where one becomes part of another."""
    figure, ax = plt.subplots(figsize=(WIDTH, 2.4))
    above = list(range(len(_BEFORE)))
    below = [0.0, 2.0, 4.0, 6.0]
    for place, (text, colour, part) in zip(above, _BEFORE, strict=True):
        _box(ax, place, 1, text, colour)
        ax.plot([place, below[part]], [1, 0], color=colour, lw=1.2, alpha=0.6, zorder=0)
    # β goes through the query map on its way into the bias.
    ax.plot([5, below[3]], [1, 0], color=VIOLET, lw=1.2, ls=":", zorder=0)
    for under, (text, colour) in zip(below, _AFTER, strict=True):
        _box(ax, under, 0, text, colour)
    ax.set(xlim=(-0.6, 6.6), ylim=(-0.35, 1.35))
    ax.axis("off")
    return figure


def _box(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour, "lw": 1.5}
    ax.text(x, y, text, ha="center", va="center", color=BLACK, bbox=frame)
