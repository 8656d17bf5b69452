"""Position terms of heads, drawn as small multiples (chapter 07)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn.position.bias import PositionBias
from lnattn.position.curves import LastRows
from lnattn.position.measured import MeasuredAttention
from lnattn.position.without_tokens import PositionOnly
from lnattn_book.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PALETTE,
    SINGLE,
    VERMILION,
    WIDTH,
    legend,
    ring,
    words_at,
)

#: One colour and one dash for each query, so that curves differ without colour too.
_QUERIES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))


def self_assertion(bias: PositionBias) -> Figure:
    """T^p of every head before the division by σ (Fig. 3A and 8 of Kamoda et al. 2025).

    A head whose curve falls is drawn in vermilion.
    """
    figure, axes = head_grid(range(bias.n_heads), share_y=False)
    for curve, ax in zip(bias.term_p().mean, axes, strict=True):
        ax.plot(curve, color=VERMILION if curve[-len(curve) // 4] < curve[1] else BLUE, lw=1.3)
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    _label(figure, "key position j", "$b^{QK}p_j^\\top$")
    return figure


def comparison(bias: PositionBias, heads: Sequence[int]) -> Figure:
    """T^pp before the division by σ, for each query; keys it cannot see drawn thin (Fig. 3B, 9).

    Ringed: the highest value that the last query sees.
    """
    figure, axes = head_grid(heads, share_y=False)
    for curves, ax in zip(bias.term_pp().mean[list(heads)], axes, strict=True):
        for i, curve, (colour, dash) in zip(bias.queries, curves, _QUERIES, strict=False):
            seen = curve[: i + 1] if bias.causal else curve
            ax.plot(curve, color=colour, linewidth=0.5, alpha=0.6)
            ax.plot(seen, dash, color=colour, linewidth=1.5, label=f"query i = {i}")
            ax.plot(i, curve[i], "o", color=colour, markersize=3.5)
        ring(ax, seen.argmax(), seen.max(), 11)
    _label(figure, "key position j", "$p_i W^{QK} p_j^\\top$")
    legend(figure, columns=3)
    return figure


def attention(bias: PositionBias) -> Figure:
    """softmax of (T^p + T^pp)/√d_head for each query (Fig. 3D and 10)."""
    figure, axes = head_grid(range(bias.n_heads))
    for curves, ax in zip(bias.attention(), axes, strict=True):
        for i, curve, (colour, dash) in zip(bias.queries, curves, _QUERIES, strict=False):
            seen = curve[: i + 1] if bias.causal else curve
            ax.plot(seen, dash, color=colour, linewidth=1.3, label=f"query i = {i}")
    axes[0].set_ylim(0)  # panels share the axis; its top follows the highest curve of all
    _label(figure, "key position j", "attention by position alone")
    legend(figure, columns=3)
    return figure


def measured_beside_predicted(
    bias: PositionBias,
    measured: MeasuredAttention,
    heads: Sequence[int],
    row: int = -1,
    back: int = 30,
) -> Figure:
    """Attention on text and by position alone, for one query, against the distance (Fig. 3E)."""
    figure, axes = head_grid(heads)
    i = bias.queries[row]
    start = max(0, i - back)
    distance = i - np.arange(start, i + 1)
    predicted = bias.attention()[:, row, start : i + 1]
    for head, ax in zip(heads, axes, strict=True):
        mean = measured.mean[head, row, start : i + 1]
        error = 2 * measured.error[head, row, start : i + 1]
        ax.fill_between(distance, mean - error, mean + error, color=VERMILION, alpha=0.3, lw=0)
        ax.plot(distance, mean, color=VERMILION, label="measured on text")
        ax.plot(distance, predicted[head], color=BLUE, linestyle="--", label="by position alone")
    axes[0].set_ylim(0)
    axes[0].invert_xaxis()  # shared: the query is at the right end, as in the other figures
    _label(figure, f"distance i − j of the key from the query, i = {i}", "attention")
    legend(figure)
    return figure


def last_rows(last: LastRows, heads: Sequence[int]) -> Figure:
    """p_i W_QK p_jᵀ of the last queries: the very last is flat if it was not trained (Fig. 7)."""
    figure, axes = head_grid(heads, share_y=False)
    for head, ax in zip(heads, axes, strict=True):
        for row, i in enumerate(last.queries):
            is_last = row == len(last.queries) - 1
            colour = BLACK if is_last else PALETTE[row]
            width = 2.4 if is_last else 1.1
            ax.plot(last.curves[head, row], color=colour, linewidth=width, label=f"i = {i}")
    _label(figure, "key position j", r"$p_i W^{QK} p_j^\top$")
    legend(figure, columns=3)
    return figure


def assumptions(only: PositionOnly, named: Sequence[int], row: int = 1) -> Figure:
    """Near share of every head of a partial model, against the assumed variance of tokens.

    named: the heads that are coloured and labelled; the others are grey.
    """
    figure, ax = plt.subplots(figsize=SINGLE)
    multiples = only.assumed / float(np.median(only.variance))
    colours = dict(zip(named, PALETTE, strict=False))
    for head in range(only.bias.n_heads):
        curve, colour = only.near[:, head, row], colours.get(head, GREY)
        ax.plot(multiples, curve, color=colour, lw=1.8 if head in colours else 0.9, zorder=2)
        if head in colours:
            words_at(ax, f"head {head}", (multiples[-1], curve[-1]), (6, -4), color=colour)
    others = [head for head in range(only.bias.n_heads) if head not in colours]
    middle = float(np.median(only.near[0, others, row]))
    words_at(ax, "others", (0, middle), (-8, -4), ha="right", color=GREY)
    i = only.bias.queries[row]
    ax.axhline(10 / (i + 1), color=BLACK, linewidth=0.8, linestyle=":")
    words_at(ax, "even", (0, 10 / (i + 1)), (-8, 3), ha="right")
    ax.set_xscale("symlog", linthresh=0.25)
    ax.set_xticks(multiples, [f"{m:g}" for m in multiples])
    ax.set(xlim=(-0.12, 60), ylim=(0, 1.02))
    ax.set_xlabel(r"assumed Var($e$), in units of the median Var($p_j$)")
    ax.set_ylabel(f"share of the nearest ten, i = {i}")
    return figure


def head_grid(
    heads: Sequence[int], share_y: bool = True, titles: Sequence[str] | None = None
) -> tuple[Figure, list[Axes]]:
    """One small panel a head, two or three in a row; unused panels are removed."""
    count = len(heads)
    columns = 1 if count == 1 else 3 if count > 8 else 2
    rows = -(-count // columns)
    size = (WIDTH, 1.0 + 1.45 * rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, sharex=True, sharey=share_y, squeeze=False
    )
    axes = list(grid.flat)
    for ax in axes[count:]:
        ax.remove()
    for number, ax in enumerate(axes[:count]):
        ax.set_title(titles[number] if titles else f"head {heads[number]}", pad=3)
        ax.locator_params(axis="x", nbins=4)
        ax.locator_params(axis="y", nbins=4)
    return figure, axes[:count]


def _label(figure: Figure, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=11)
    figure.supylabel(y, fontsize=11)
