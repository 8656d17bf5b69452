"""What models lose without parts of their first layer's scores, drawn (chapter 6)."""

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
    SMALL,
    TERM_COLOURS,
    TERM_NAMES,
    WIDTH,
    legend,
    model_name,
    ring,
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
            mean = found.everywhere[0, found.of(what)]
            joined = found.excess(what)[0]
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
    ax.set_xticks(ticks, [f"{one / 1e6:.{int(one < 1e7)}f}M" for one in ticks])
    ax.minorticks_off()
    legend(figure, "upper left", columns=1)
    return figure


_BY_PLACE = "largest attention on the token before, by place alone"
