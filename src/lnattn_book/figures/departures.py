"""Figures of the page on departures: the same quantity, by the text and by the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn_book.style import TERM_COLOURS, WIDTH, term_symbol


def two_rankings(means: Mapping[str, Float[np.ndarray, "term"]], names: Sequence[str]) -> Figure:
    """Shares of the sum, side by side for each way of counting; one colour for each term."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    places, ends = np.arange(len(means)), []
    for number, name in enumerate(names):
        shares = [values[number] / values.sum() for values in means.values()]
        dashes = "--" if name in ("ep", "pe") else "-"
        ax.plot(places, shares, "o", ls=dashes, color=TERM_COLOURS[name])
        ends.append((shares[-1], name))
    free = np.inf
    for share, name in sorted(ends, reverse=True):
        free = min(share, free - 0.035)  # none upon another
        words = {"color": TERM_COLOURS[name], "va": "center"}
        ax.annotate(term_symbol(name), (places[-1] + 0.15, free), annotation_clip=False, **words)
    ax.set_xticks(places, [name.replace(" ", "\n", 1) for name in means])
    ax.set_ylim(0, None)
    ax.set_ylabel("share of the sum of six")
    return figure
