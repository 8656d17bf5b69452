"""The training curve of the embedded model, beside what counting alone can reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from lnattn_book.style import BLACK, BLUE, GREY, VERMILION, WIDTH, legend


def training_curve(
    log: Sequence[Mapping[str, float]], baselines: Mapping[str, float], unit: str
) -> Figure:
    """Training and held-out loss over steps, with the n-gram baselines as horizontal lines.

    log: records with step, train_loss (mean since the one before, with dropout) and held_out_loss;
    baselines: name to held-out loss.
    """
    steps = [entry["step"] for entry in log]
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    ax.plot(steps, [e["train_loss"] for e in log], "o--", color=BLUE, label="training (dropout on)")
    ax.plot(steps, [e["held_out_loss"] for e in log], "o-", color=VERMILION, label="held out")
    for (name, loss), style in zip(baselines.items(), ("--", ":", "-."), strict=False):
        ax.axhline(loss, color=BLACK if style == "--" else GREY, ls=style, lw=1.3, label=name)
    ax.set(xlabel="optimiser steps", ylabel=unit)
    # Above the axes: the baselines cross all of their width.
    legend(figure)
    return figure
