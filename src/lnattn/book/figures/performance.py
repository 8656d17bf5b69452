"""Figures of the performance page: speed ratios, and how times grow."""

from __future__ import annotations

from collections.abc import Sequence

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
    figure, ax = plt.subplots(figsize=(WIDTH, 1.2 + 0.62 * len(entries)))
    for row, (_, entry) in enumerate(entries):
        ax.plot([entry["low"], entry["high"]], [row, row], color=BLUE, lw=3, alpha=0.45)
        ax.plot(entry["median"], row, "o", color=BLUE, label="measured" if row == 0 else None)
        if entry["floor"] is not None:
            ax.plot(entry["floor"], row, "|", color=VERMILION, ms=16, mew=2.5)
        ax.annotate(
            f"{entry['median']:.3g}×",
            (entry["median"], row),
            textcoords="offset points",
            xytext=(0, 8),
            ha="center",
            fontsize=SMALL,
        )
    if any(entry["floor"] is not None for _, entry in entries):
        ax.plot([], [], "|", color=VERMILION, ms=12, mew=2.5, label="asked for")
    labels = [f"{one.title}:\n{entry['of']} / {entry['to']}" for one, entry in entries]
    ax.set_yticks(range(len(entries)), labels, fontsize=8)
    ax.set_ylim(len(entries) - 0.4, -0.7)
    ax.axvline(1, color=GREY, lw=1)
    ax.set(xscale="log", xlabel="times faster")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def scaling(benchmarks: Sequence[Benchmark]) -> Figure:
    """Seconds against each size, log–log, with the fitted power law of each method."""
    panels = [(one, entry) for one in benchmarks for entry in one.growth]
    if not panels:
        raise ResultError("no frozen benchmark says how it grows; run benchmarks/run_all.py.")
    rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 3.3 * rows), squeeze=False)
    for ax, (one, entry) in zip(axes.flat, panels, strict=False):
        _panel(ax, one, entry)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    return figure


def _panel(ax: Axes, one: Benchmark, entry: dict) -> None:
    """One panel: points, the fitted line, and the exponent in the legend."""
    sizes = np.array(entry["sizes"], dtype=float)
    for number, (method, times) in enumerate(entry["seconds"].items()):
        known = np.array([time is not None for time in times])
        x, y = sizes[known], np.array([time for time in times if time is not None])
        colour = PALETTE[number % len(PALETTE)]
        label = method
        if method in entry["slopes"]:
            slope = entry["slopes"][method]
            label += f": {entry['against']}$^{{{slope:.2f}}}$"
            level = np.exp(np.mean(np.log(y) - slope * np.log(x)))
            ax.plot(x, level * x**slope, color=colour, lw=1, ls=":")
        ax.plot(x, y, _MARKS[number % len(_MARKS)], color=colour, label=label)
    ax.set(xscale="log", yscale="log", xlabel=entry["label"], ylabel="seconds")
    ax.set_title(one.title, fontsize=8.5)
    ax.xaxis.set_major_locator(FixedLocator(sizes))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(sizes, [_short(size) for size in sizes], fontsize=8)
    ax.tick_params(axis="y", labelsize=8)
    ax.yaxis.grid(True)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend above the points
    ax.legend(fontsize=7, loc="upper left", handletextpad=0.2, borderaxespad=0.1)


def _short(size: float) -> str:
    return f"{size / 1000:.3g}k" if size >= 10_000 else f"{size:g}"


__all__ = ["scaling", "speed_ratios"]
