"""What one layer's attention does: a mean of values (the companion on the layer)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lnattn_book.page.style import ROSE, VIOLET, WIDTH, words_at


def expectation(values: np.ndarray, weights: np.ndarray, output: np.ndarray) -> Figure:
    """One head with two features: value vectors as discs sized by attention, and their mean."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    ax.scatter(*values.T, s=30 + 1500 * weights, color=VIOLET, alpha=0.35, label="value of a key")
    ax.scatter(*values.T, s=12, color=VIOLET)
    for j, (value, weight) in enumerate(zip(values, weights, strict=True)):
        words_at(ax, f"key {j}: {weight:.2f}", value, (7, 7))
    ax.scatter(*output, marker="X", s=120, color=ROSE, label="output", zorder=3)
    ax.margins(0.2)
    ax.set(xlabel="feature 1 of the value", ylabel="feature 2")
    ax.legend(markerscale=0.5, loc="best")
    return figure
