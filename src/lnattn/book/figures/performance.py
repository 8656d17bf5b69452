"""Figures of the performance page: speed ratios, and how times grow."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from lnattn.book.benchmark_report import Benchmark
from lnattn.book.style import BLUE, GREY, PALETTE, SMALL, VERMILION, WIDTH
from lnattn.errors import ResultError

_MARKS = "osD^vP"


def speed_ratios(benchmarks: Sequence[Benchmark]) -> Figure:
    """Every ratio on one logarithmic axis: median, range, and the number that was asked for."""
    entries = [(one, entry) for one in benchmarks for entry in one.ratios]
    if not entries:
        raise ResultError("no frozen benchmark has a ratio to draw; run benchmarks/run_all.py.")
    figure, ax = plt.subplots(figsize=(WIDTH, 1.2 + 0.75 * len(entries)))
    for row, (one, entry) in enumerate(entries):
        # Above its mark and not beside it: names this long would leave no room for the axis.
        name = f"{one.title}\n{entry['of']} / {entry['to']}"
        ax.text(0, row - 0.3, name, transform=ax.get_yaxis_transform(), fontsize=7.5, va="bottom")
        ax.plot([entry["low"], entry["high"]], [row, row], color=BLUE, lw=3, alpha=0.45)
        ax.plot(entry["median"], row, "o", color=BLUE, label="measured" if row == 0 else None)
        if entry["floor"] is not None:
            ax.plot(entry["floor"], row, "|", color=VERMILION, ms=16, mew=2.5)
        ax.annotate(
            f"{entry['median']:,.{0 if entry['median'] >= 100 else 1}f}×",
            (max(entry["high"], entry["floor"] or 0), row),
            textcoords="offset points",
            xytext=(9, 0),
            va="center",
            fontsize=SMALL,
        )
    if any(entry["floor"] is not None for _, entry in entries):
        ax.plot([], [], "|", color=VERMILION, ms=12, mew=2.5, label="asked for")
    ax.set_yticks([])
    ax.set_ylim(len(entries) - 0.6, -0.9)
    ax.axvline(1, color=GREY, lw=1, zorder=0)
    ax.set(xscale="log", xlabel="times faster")
    ax.set_xlim(right=ax.get_xlim()[1] * 3)  # room for the last number
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def scaling(benchmarks: Sequence[Benchmark]) -> Figure:
    """Seconds against each size, log–log, with the fitted power law of each method."""
    panels = [(one, entry) for one in benchmarks for entry in one.growth]
    if not panels:
        raise ResultError("no frozen benchmark says how it grows; run benchmarks/run_all.py.")
    rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 2.9 * rows), squeeze=False)
    for ax, (one, entry) in zip(axes.flat, panels, strict=False):
        _panel(ax, one, entry)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    return figure


def _panel(ax: Axes, one: Benchmark, entry: Mapping[str, Any]) -> None:
    """One panel: points, the fitted line, and the exponent in the legend."""
    sizes = np.array(entry["sizes"], dtype=float)
    for number, (method, times) in enumerate(entry["seconds"].items()):
        known = np.array([time is not None for time in times])
        x, y = sizes[known], np.array([time for time in times if time is not None])
        colour = PALETTE[number % len(PALETTE)]
        label = textwrap.fill(method, 30)
        if method in entry["slopes"]:
            slope = entry["slopes"][method]
            label += f": {entry['against']}$^{{{slope:.2f}}}$"
            level = np.exp(np.mean(np.log(y) - slope * np.log(x)))
            ax.plot(x, level * x**slope, color=colour, lw=1, ls=":")
        ax.plot(x, y, _MARKS[number % len(_MARKS)], color=colour, label=label)
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel(entry["label"], fontsize=8)
    ax.set_ylabel("seconds", fontsize=8)
    ax.set_title(textwrap.fill(one.title, 34), fontsize=8.5)
    ax.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(sizes, [_short(size) for size in sizes], fontsize=7)
    ax.tick_params(axis="y", which="both", labelsize=7)
    ax.yaxis.grid(True)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.5)  # room for the legend above the points
    legend = ax.legend(fontsize=7, loc="upper left", handletextpad=0.2, borderaxespad=0.1)
    legend.set_in_layout(False)  # inside the panel: it must not push the axes together


def _short(size: float) -> str:
    if size >= 1e6:
        return f"{size / 1e6:.3g}M"
    return f"{size / 1000:.3g}k" if size >= 1000 else f"{size:g}"


__all__ = ["scaling", "speed_ratios"]
