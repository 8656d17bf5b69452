"""The figure of the performance page: how times grow, in small panels that are read alike."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from lnattn.errors import ResultError
from lnattn_book.benchmark_report import Benchmark, Kind
from lnattn_book.style import BLUE, GREY, SMALL, VERMILION, WIDTH

#: Kind of method -> its colour and mark in every panel.
_LOOKS = {Kind.OURS: (BLUE, "o"), Kind.THEIRS: (VERMILION, "s"), Kind.BOUND: (GREY, "^")}


def scaling(benchmarks: Sequence[Benchmark]) -> Figure:
    """Seconds against each size, log–log, with the fitted power law and its exponent."""
    panels = [(one, entry) for one in benchmarks for entry in one.growth]
    if not panels:
        raise ResultError("no frozen benchmark says how it grows; run benchmarks/run_all.py.")
    rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 0.6 + 2.05 * rows), squeeze=False)
    for ax, (one, entry) in zip(axes.flat, panels, strict=False):
        _panel(ax, one, entry)
    for ax in axes[:, 0]:
        ax.set_ylabel("seconds", fontsize=SMALL)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    handles = [
        Line2D([], [], color=colour, marker=mark, ls=":", lw=1, label=kind.value)
        for kind, (colour, mark) in _LOOKS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def _panel(ax: Axes, one: Benchmark, entry: Mapping[str, Any]) -> None:
    """One size of one benchmark: points and fitted lines, the exponent at the end of each."""
    sizes = np.array(entry["sizes"], dtype=float)
    ends: list[tuple[float, float, str, str]] = []
    for method, times in entry["seconds"].items():
        known = np.array([time is not None for time in times])
        x, y = sizes[known], np.array([time for time in times if time is not None])
        colour, mark = _LOOKS[one.kind(method)]
        ax.plot(x, y, mark, color=colour, ms=4)
        if method in entry["slopes"]:
            slope = entry["slopes"][method]
            fitted = np.exp(np.mean(np.log(y) - slope * np.log(x))) * x**slope
            ax.plot(x, fitted, color=colour, lw=1, ls=":")
            ends.append((x[-1], fitted[-1], f"{slope:.1f}".replace("-", "−"), colour))
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel(entry["label"], fontsize=SMALL)
    ax.set_title(textwrap.shorten(one.title.split(":")[0], 32, placeholder="…"), fontsize=SMALL)
    ax.margins(x=0.16, y=0.14)
    ax.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(LogLocator(numticks=4))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(sizes, [_short(size) for size in sizes])
    ax.yaxis.grid(True)
    _exponents(ax, ends)


def _exponents(ax: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """An exponent at the end of each line, the highest in its place and none upon another."""
    low, high = np.log(ax.get_ylim())
    free = np.inf
    for x, y, text, colour in sorted(ends, key=lambda end: -end[1]):
        place = min((np.log(y) - low) / (high - low), free)
        free = place - 0.14
        ax.annotate(
            text, (x, np.exp(low + place * (high - low))), xytext=(5, 0),
            textcoords="offset points", color=colour, fontsize=SMALL, va="center",
        )  # fmt: skip


def _short(size: float) -> str:
    if size >= 1e6:
        return f"{size / 1e6:.3g}M"
    round_enough = size >= 1000 and size % 500 == 0
    return f"{size / 1000:.3g}k" if round_enough or size >= 20000 else f"{size:g}"
