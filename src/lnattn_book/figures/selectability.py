"""Certificates, random keys and small language models (chapter 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn.selectability.decide import Selectability
from lnattn_book.chapters.unselectable import SETS
from lnattn_book.figures.layernorm import hull_of
from lnattn_book.page.style import (
    BLACK,
    OLIVE,
    OTHERS,
    ROSE,
    SEQUENTIAL,
    SMALL,
    VIOLET,
    WIDTH,
    legend,
    ring,
    words_at,
)
from lnattn_book.studies.language_models import KEYS, LongRuns
from lnattn_book.studies.random_keys import RandomGrid

#: One colour and mark for each arm, the same in all figures.
ARM_STYLE = {
    "full": (VIOLET, "o", "LayerNorm"),
    "no-scaling": (ROSE, "s", "without scaling"),
    "no-projection": (OLIVE, "^", "without projection"),
}
#: Two places to look at, by the names that figures give them.
_PLACES: dict[str, int | slice] = {"in the layer": KEYS, "in a head": slice(KEYS + 1, None)}


def two_proofs(
    keys: Float[np.ndarray, "n 2"], verdicts: Selectability, inside: int, corner: int
) -> Figure:
    """An unselectable key in the triangle that proves it, and a corner with its direction."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 3.6), sharex=True, sharey=True, layout="compressed"
    )
    for ax in (left, right):
        hull_of(ax, keys, verdicts.selectable)
    left.set_ylabel("coordinate 2")

    members = verdicts.support[inside][verdicts.support[inside] >= 0]
    left.fill(*keys[members].T, color=OLIVE, alpha=0.35, zorder=0)
    for member, weight in zip(members, verdicts.weights[inside], strict=False):
        left.plot(*np.stack([keys[member], keys[inside]]).T, ":", color=BLACK, linewidth=1.2)
        words_at(left, f"{weight:.2f}", keys[member], (6, 5))
    words_at(left, "k", keys[inside], (6, -13), style="italic")
    left.set_title("k is a mixture\nof three others")

    v = verdicts.direction[corner]
    k = keys[corner]
    reach = np.ptp(keys, axis=0).max()
    line = k + np.outer([-0.45, 0.45], [-v[1], v[0]]) * reach
    right.plot(*line.T, "--", color=BLACK, linewidth=1.2)
    tip = k + 0.28 * reach * v
    right.annotate("", tip, k, arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 1.8})
    words_at(right, "v", tip, (5, 2), style="italic")
    words_at(right, "c", k, (-14, -3), style="italic")
    right.set_title("c wins\nfor the query v")
    legend(figure, "lower center")
    return figure


def grids(grid: RandomGrid) -> Figure:
    """Both readings of Fig. 1c, side by side."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharey=True)
    titles = ("mean share of\nunselectable keys", "probability that\nany is unselectable")
    for ax, title, values in zip(axes, titles, (grid.fraction, grid.probability), strict=True):
        mesh = ax.pcolormesh(
            grid.widths, grid.counts, values, cmap=SEQUENTIAL, vmin=0, vmax=1, rasterized=True
        )
        ax.set(title=title, xlabel="width d", xticks=grid.widths[::3])
        ax.plot(8, grid.counts[-1], "o", ms=13, mfc="none", mec="white", mew=4, clip_on=False)
        ring(ax, 8, grid.counts[-1])
    axes[0].set_ylabel("number of keys n")
    figure.colorbar(mesh, ax=axes)
    return figure


def long_runs(runs: LongRuns) -> Figure:
    """Held-out loss, and unselectable keys of layers and of heads, against the tokens seen."""
    figure, (loss, keys) = plt.subplots(2, 1, figsize=(WIDTH, 7.2), sharex=True)
    for arm, (colour, mark, label) in ARM_STYLE.items():
        held_out = runs.losses[runs.arm(arm), ..., 1]
        for seed in np.flatnonzero(np.isfinite(held_out[:, -1])):
            loss.plot(runs.tokens, held_out[seed], color=colour, linewidth=1.2, label=label)
            for line, place in zip("-:", _PLACES.values(), strict=True):
                shares = 100 * runs.shares(arm, place)[seed].mean(axis=1)
                keys.plot(runs.kept, shares, line, color=colour, marker=mark, markersize=4)
    for title, line in zip(_PLACES, "-:", strict=True):
        keys.plot([], [], line, color=BLACK, label=title)
    for ax in (loss, keys):
        ax.set_xscale("log")
        ax.get_xaxis().set_major_formatter("{x:g}")
    loss.set_ylabel("held-out loss (nats per token)")
    keys.set(xlabel="million tokens seen", ylabel="unselectable keys (%)", ylim=(-3, 103))
    legend(figure, "lower center", 3)
    return figure


def law(study: Mapping[str, np.ndarray], record: Mapping[str, Any], sets: Sequence[str]) -> Figure:
    """Unselectable keys against their number, a panel a set: lines Gaussian, marks real."""
    figure, axes = plt.subplots(
        1, len(sets), figsize=(WIDTH, 3.7), sharex=True, sharey=True, squeeze=False
    )
    for name, ax in zip(sets, axes[0], strict=True):
        place = record["sets"].index(name)
        expected = zip(record["widths"], study["expected"].T, OTHERS, strict=False)
        for width, line, colour in expected:
            label = f"$d'$ = {width}"
            ax.plot(record["counts"], 100 * line, color=colour, linewidth=2, label=label)
        n = study["n"][place]
        for shares, colour in zip(study["share"][place], OTHERS, strict=False):
            ax.plot(n, 100 * shares, "o:", color=colour, linewidth=0.8, markersize=5)
        ax.set_title(SETS[name].replace(", ", ",\n"), fontsize=SMALL)
        ax.set_xscale("log", base=2)
        ax.set(xlim=(28, 1300), xticks=record["counts"][::2])
        ax.tick_params(axis="x", labelsize=8)
        ax.get_xaxis().set_major_formatter("{x:g}")
    axes[0, 0].set_ylabel("unselectable keys (%)")
    axes[0, len(sets) // 2].set_xlabel("number of keys n")
    legend(figure, "lower center", 3)
    return figure
