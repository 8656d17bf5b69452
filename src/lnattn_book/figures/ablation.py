"""What models lose without parts of their first layer's scores, drawn (chapter 08)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lnattn.ablation.study import Ablations, interval
from lnattn_book.style import (
    BLACK,
    BLUE,
    DISTANCE_NAMES,
    GREY,
    TERM_NAMES,
    WIDTH,
    legend,
    model_name,
    ring,
    words_at,
)

_NAMES = {**DISTANCE_NAMES, **TERM_NAMES, "pairs": "counted pairs"}
#: The two parts that the chapter compares; they are ringed.
_COMPARED = ("place", "ee")


def loss_by_head(models: Mapping[str, Ablations]) -> Figure:
    """Loss without each part in all heads: over all tokens, and after second pieces of words."""
    rows = {name: _parts(one) for name, one in models.items()}
    heights = [len(one) for one in rows.values()]
    shape = {"figsize": (WIDTH, 0.27 * sum(heights) + 1.5), "height_ratios": heights}
    figure, axes = plt.subplots(len(models), 1, sharex=True, squeeze=False, **shape)
    for ax, (name, found) in zip(axes[:, 0], models.items(), strict=True):
        for row, what in enumerate(rows[name]):
            low, high = interval(found.excess(what))[1:]
            mean, joined = found.everywhere[0, found.of(what)], found.excess(what)[0]
            ax.plot([low, high], [row] * 2, color=BLUE, lw=1.5)
            words = "after pieces of words, beyond matched tokens"
            ax.plot(joined, row, "o", color=BLUE, ms=4.5, label=words)
            ax.plot(mean, row, "x", color=BLACK, ms=6, mew=1.8, label="all tokens")
            if what in _COMPARED:
                ring(ax, mean, row)
        ax.axvline(0, color=GREY, linewidth=0.8, zorder=0)
        # Evenly within a hundredth of a nat, by factors beyond: place is worth many times the rest.
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set_xticks([-0.1, -0.01, 0, 0.01, 0.1, 1], ["−0.1", "−0.01", "0", "0.01", "0.1", "1"])
        ax.set_yticks(range(len(rows[name])), [_name(what, found) for what in rows[name]])
        ax.set_ylim(len(rows[name]) - 0.4, -0.6)
        ax.set_title(model_name(name))
    legend(figure, "upper left")
    figure.supxlabel("loss without it (nats a token)", fontsize=11)
    return figure


def _name(what: str, found: Ablations) -> str:
    """A part as readers know it; place is one term of a rotary model, two of the others."""
    place = DISTANCE_NAMES["d"] if "d" in found.what else "place (both terms)"
    return place if what == "place" else _NAMES[what]


def _parts(found: Ablations) -> list[str]:
    """What was left out of all heads, place first; a part that is place under another name, not."""
    listed = found.what[found.head < 0].tolist()
    losses = {what: found.everywhere[0, found.of(what)] for what in listed if what != "place"}
    whole = found.everywhere[0, found.of("place")]
    return ["place", *sorted((w for w in losses if losses[w] != whole), key=lambda w: -losses[w])]


def prediction_scatter(models: Mapping[str, tuple[Ablations, pd.DataFrame]]) -> Figure:
    """Each head: what the weights tell of its T^ee beside the loss after second pieces without."""
    figure, axes = plt.subplots(1, len(models), figsize=(WIDTH, 3.0), sharey=True, squeeze=False)
    for ax, (name, (found, told)) in zip(axes[0], models.items(), strict=True):
        by_head, known = found.by_head("ee"), told["specific auroc"]
        low, high = np.quantile(by_head[1:], [0.025, 0.975], axis=0)
        ax.vlines(known, low, high, color=BLUE, lw=1)
        ax.plot(known, by_head[0], "o", color=BLUE, ms=4)
        for head, (x, y) in enumerate(zip(known, by_head[0], strict=True)):
            words_at(ax, str(head), (x, y), (4, 3))
        best = int(known.argmax())
        ring(ax, known[best], by_head[0, best])
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        ax.set_title(model_name(name))
    figure.supxlabel("what the weights know of their query (specific AUROC)", fontsize=11)
    figure.supylabel("lost after second pieces (nats)", fontsize=11)
    return figure
