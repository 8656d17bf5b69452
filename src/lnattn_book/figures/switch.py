"""Who looks back, drawn: two queries of one sentence, with and without a term (chapter 13)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn_book.page.style import BLACK, DISTANCE_COLOURS, GREY, WIDTH, legend


def two_queries(
    names: Sequence[str],
    queries: Sequence[int],
    whole: Float[np.ndarray, "query key"],
    without: Float[np.ndarray, "query key"],
) -> Figure:
    """One head's attention from some queries of a sentence, as it is and without T^ed.

    names: the tokens of the sentence; queries: their places; whole, without: attention of these.
    The token before each query has its two numbers.
    """
    shown = max(queries) + 1
    figure, axes = plt.subplots(1, len(queries), figsize=(WIDTH, 0.29 * shown + 1.2), sharey=True)
    colour = DISTANCE_COLOURS["ed"]
    for ax, query, paid, left in zip(axes, queries, whole, without, strict=True):
        keys = np.arange(query + 1)
        before = query - 1
        ax.barh(keys, paid[: query + 1], color=colour, height=0.75, label="the head")
        style = {"fill": False, "edgecolor": BLACK, "linewidth": 1.2, "height": 0.75}
        ax.barh(keys, left[: query + 1], label="without $T^{ed}$", **style)
        words = f"{paid[before]:.0%}, without {left[before]:.0%}"
        end = max(paid[before], left[before])
        inside = end > 0.5
        ax.annotate(
            words,
            (0.5 if inside else end, before),
            (0, 10 if inside else 0) if inside else (4, 0),
            textcoords="offset points",
            va="bottom" if inside else "center",
            ha="center" if inside else "left",
        )
        ax.axhline(query, color=GREY, linewidth=0.8, zorder=0)
        ax.set(title=f"query “{names[query].strip()}”", xlim=(0, 1), xlabel="attention")
    axes[0].set_yticks(range(shown), [name.strip() for name in names[:shown]])
    axes[0].invert_yaxis()
    legend(figure)
    return figure
