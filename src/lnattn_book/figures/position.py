"""Position terms of heads: one head step by step, then all as small multiples (chapter 5).

T^p and T^pp have the colours that they have in the whole book, their sum and its softmax are black.
Queries differ by dash and shade.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnattn.position.bias import PositionBias
from lnattn.position.measured import near_share
from lnattn_book.page.style import (
    BLACK,
    GREY,
    SMALL,
    TERM_COLOURS,
    WIDTH,
    legend,
    ring,
    term_label,
    words_at,
)

#: The dash and the shade of each query, first to last.
_QUERIES = ((":", 0.6), ("--", 0.8), ("-", 1.0))


def one_head(
    slope: Float[np.ndarray, "key"],
    wave: Float[np.ndarray, "key"],
    attention: Float[np.ndarray, "key"],
) -> Figure:
    """What one head's position terms say of the keys that a query sees: slope, wave, softmax.

    slope, wave: T^p and T^pp over √d_head, which share an axis; attention: the softmax of their
    sum. The query is the last key. Ringed: the wave's highest crest, position 0 apart.
    """
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.5))
    axes[1].sharey(axes[0])
    axes[1].tick_params(labelleft=False)
    titles = (term_label("p"), term_label("pp"), "softmax of the sum")
    colours = (TERM_COLOURS["p"], TERM_COLOURS["pp"], BLACK)
    for ax, curve, colour, title in zip(
        axes, (slope, wave, attention), colours, titles, strict=True
    ):
        ax.plot(curve, color=colour)
        ax.plot(len(curve) - 1, curve[-1], "o", color=colour, markersize=4)
        ax.set_title(title, fontsize=9)
        ax.locator_params(nbins=4)
    for ax in axes[:2]:
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    crest = 1 + int(wave[1:].argmax())
    ring(axes[1], crest, wave[crest], 11)
    axes[0].set_ylabel(r"score$\,/\sqrt{d'}$")
    axes[2].set_ylim(0)
    axes[2].yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes[1].set_xlabel("key position j; the query is the last")
    return figure


def slopes(bias: PositionBias, apart: Sequence[int]) -> Figure:
    """T^p of every head on one axis, each from its lowest value to its highest (Fig. 3A and 8).

    apart: the heads that are drawn bold and named. Dotted: the first of the bias's queries.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    for head, curve in enumerate(bias.term_p().mean):
        level = (curve - curve.min()) / np.ptp(curve)
        bold = head in apart
        ax.plot(
            level,
            color=TERM_COLOURS["p"] if bold else GREY,
            linewidth=2.0 if bold else 0.9,
            zorder=3 if bold else 2,
        )
        if bold:
            middle = len(level) // 2
            words_at(ax, f"head {head}", (middle, level[middle]), (4, 6))
    ax.axvline(bias.queries[0], color=BLACK, linestyle=":", linewidth=0.9)
    words_at(ax, f"i = {bias.queries[0]}", (bias.queries[0], 1), (4, -4))
    ax.set(xlabel="key position j", ylabel="$T^p$, lowest to highest", yticks=[0, 1])
    return figure


def waves(bias: PositionBias) -> Figure:
    """T^pp of every head for each query, keys it cannot see drawn thin (Fig. 3B and 9).

    Every panel has its own scale; its title gives the span of what the last query sees. Ringed: the
    highest value that the last query sees, position 0 apart.
    """
    terms = bias.term_pp().mean / bias.scale
    return _curves(bias, terms, TERM_COLOURS["pp"], r"$T^{pp}/\sqrt{d'}$")


def attention(bias: PositionBias) -> Figure:
    """softmax of (T^p + T^pp)/√d_head for each query (Fig. 3D and 10).

    Every panel has its own scale; its title gives what the last query puts on the nearest ten keys.
    """
    near = near_share(bias.attention(), bias.queries, bias.causal)[:, -1]
    titles = [f"head {head}: {share:.0%} near" for head, share in enumerate(near)]
    figure, axes = head_grid(titles)
    for curves, ax in zip(bias.attention(), axes, strict=True):
        for i, curve, look in zip(bias.queries, curves, _QUERIES, strict=False):
            seen = curve[: i + 1] if bias.causal else curve
            _query(ax, seen, BLACK, look, f"query i = {i}", first=0)
        ax.set_ylim(0)
    _label(figure, "key position j", "attention by position alone")
    legend(figure, columns=3)
    return figure


def head_grid(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """One small panel a title, each on its own scale, up to three in a row."""
    count = len(titles)
    columns = 1 if count == 1 else 3 if count > 8 else 2
    rows = -(-count // columns)
    size = (WIDTH, 1.0 + 1.45 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, sharex=True, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[count:]:
        ax.remove()
    for title, ax in zip(titles, axes, strict=False):
        ax.set_title(title, pad=3, fontsize=SMALL)
        ax.locator_params(axis="x", nbins=4)
        ax.locator_params(axis="y", nbins=4)
    return figure, axes[:count]


def _curves(
    bias: PositionBias, values: Float[np.ndarray, "head query key"], colour: str, label: str
) -> Figure:
    """Scores over key positions, a panel a head and a line a query, each with its span."""
    last = bias.queries[-1] + 1 if bias.causal else bias.n_positions
    spans = np.ptp(values[:, -1, 1:last], axis=-1)
    titles = [f"head {head}: span {span:.3g}" for head, span in enumerate(spans)]
    figure, axes = head_grid(titles)
    for curves, ax in zip(values, axes, strict=True):
        for i, curve, look in zip(bias.queries, curves, _QUERIES, strict=False):
            ax.plot(np.arange(1, len(curve)), curve[1:], color=colour, linewidth=0.4, alpha=0.5)
            _query(ax, curve[: i + 1] if bias.causal else curve, colour, look, f"query i = {i}")
            ax.plot(i, curve[i], "o", color=colour, markersize=3)
        seen = curves[-1, 1:last]
        ring(ax, 1 + seen.argmax(), seen.max(), 9)
    _label(figure, "key position j", label)
    legend(figure, columns=3)
    return figure


def _query(
    ax: Axes,
    curve: Float[np.ndarray, "key"],
    colour: str,
    look: tuple[str, float],
    label: str,
    first: int = 1,
) -> None:
    """One query's curve over the keys it sees, from `first` on: the long row of 0 stands out."""
    dash, shade = look
    keys = np.arange(first, len(curve))
    ax.plot(keys, curve[first:], dash, color=colour, alpha=shade, linewidth=1.3, label=label)


def _label(figure: Figure, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=11)
    figure.supylabel(y, fontsize=11)
