"""What models lose without parts of their first layer's scores, drawn (chapter 6)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lnattn_book.style import (
    GREY,
    SMALL,
    TERM_COLOURS,
    WIDTH,
    legend,
    model_name,
)


def what_and_where(losses: pd.DataFrame) -> Figure:
    """Two bars a model: nats lost a token without *what*, and without *where*, with their digits.

    losses: a row a model, columns what and where.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 0.52 * len(losses) + 1.2))
    rows = np.arange(len(losses))
    for offset, (part, label, colour) in zip((-0.2, 0.2), _PARTS, strict=True):
        bars = ax.barh(rows + offset, losses[part], 0.36, color=colour, label=label)
        ax.bar_label(bars, fmt="%.3f", padding=2, fontsize=SMALL)
    ax.set_yticks(rows, [model_name(name) for name in losses.index])
    ax.set(xlabel="lost without it (nats a token)", xlim=(0, 1.12 * losses.max(axis=None)))
    ax.invert_yaxis()
    legend(figure, "upper left")
    return figure


#: What is compared, its words, and the colour of its (first) term.
_PARTS = (
    ("what", "without what", TERM_COLOURS["ee"]),
    ("where", "without where", TERM_COLOURS["pp"]),
)


def early_and_late(run: pd.DataFrame, before: pd.DataFrame | None = None) -> Figure:
    """A training: what is lost above; pieces found and attention on the token before by place.

    run: a row a snapshot, columns tokens, what, where (nats), found, chance, previous. before: of
    another training of the same model, tokens, found and previous, dashed.
    """
    figure, (top, ax) = plt.subplots(2, 1, figsize=(WIDTH, 5.4), sharex=True)
    colour_of = {part: colour for part, _, colour in _PARTS}
    for part, label, colour in _PARTS:
        top.plot(run["tokens"], run[part], "o-", color=colour, ms=4, label=label)
    top.axhline(0, color=GREY, lw=0.8, zorder=0)
    top.set_yscale("symlog", linthresh=0.01)
    top.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    top.set(ylabel="lost (nats a token)", ylim=(-0.004, 1.5))
    ax.plot(
        run["tokens"],
        run["found"],
        "s-",
        color=colour_of["what"],
        ms=4,
        label="pieces found by what",
    )
    ax.plot(run["tokens"], run["previous"], "s-", color=colour_of["where"], ms=4, label=_BY_PLACE)
    ax.plot(run["tokens"], run["chance"], ":", color=GREY, label="found by chance")
    if before is not None:
        ax.plot(
            before["tokens"], before["previous"], "--", color=colour_of["where"], lw=1, alpha=0.7
        )
        ax.plot(before["tokens"], before["found"], "--", color=colour_of["what"], lw=1, alpha=0.7)
    ax.set(xscale="log", xlabel="tokens of training", ylabel="share", ylim=(0, None))
    ticks = run["tokens"].to_numpy()
    ax.set_xticks(ticks, [f"{tick / 1e6:.{int(tick < 1e7)}f}M" for tick in ticks])
    ax.minorticks_off()
    legend(figure, "upper left", columns=1)
    return figure


_BY_PLACE = "largest attention on the token before, by place alone"
