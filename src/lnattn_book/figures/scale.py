"""How time and memory of the studies' parts grow (the page on performance)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lnattn_book.page.style import (
    BLACK,
    BROWN,
    GREY,
    OLIVE,
    ROSE,
    SMALL,
    TEAL,
    VIOLET,
    WIDTH,
    legend,
)

#: Colour and marker of the computations, in the order in which they are first met.
_LOOKS = (
    (VIOLET, "o"),
    (ROSE, "s"),
    (TEAL, "^"),
    (BLACK, "v"),
    (OLIVE, "D"),
    (BROWN, "P"),
    (GREY, "X"),
)
#: Marks of the axes of memory.
_GIB = (0.5, 1, 2, 4, 8)


def growth_curves(growth: Sequence[Mapping[str, Any]]) -> Figure:
    """CPU seconds (above) and peaks of memory (below) against each size, a panel a size.

    growth: of the benchmark 'scale'. Points that took too much have no place in a curve.
    """
    methods = list(dict.fromkeys(name for entry in growth for name in entry["seconds"]))
    looks = dict(zip(methods, _LOOKS, strict=False))
    half = (len(growth) + 1) // 2
    figure, axes = plt.subplots(4, half, figsize=(WIDTH, 8.4), sharey="row", squeeze=False)
    for number, entry in enumerate(growth):
        top = 2 * (number // half)
        column = number % half
        for below, (key, unit) in enumerate((("seconds", 1), ("peak_mib", 1024))):
            ax = axes[top + below, column]
            for name, values in entry[key].items():
                colour, marker = looks[name]
                shown = np.array([np.nan if v is None else v / unit for v in values])
                ax.plot(entry["sizes"], shown, color=colour, marker=marker, label=name, lw=1.2)
            ax.set(xscale="log", yscale="log")
            ends = [entry["sizes"][0], entry["sizes"][-1]]
            ax.set_xticks(ends, [f"{size:,}" for size in ends], fontsize=SMALL)
            ax.set_xticks([], minor=True)
        axes[top, column].set_title(entry["against"])
        axes[top + 1, column].set_xlabel(entry["label"].replace(" of ", "\nof "), fontsize=SMALL)
    for row, words in enumerate(("CPU s", "GiB") * 2):
        axes[row, 0].set_ylabel(words)
        if words == "GiB":
            axes[row, 0].set_yticks(_GIB, map(str, _GIB))
            axes[row, 0].set_yticks([], minor=True)
            axes[row, 0].set_ylim(0.4, 10)
    legend(figure)
    return figure
