"""What models lose without parts of their first layer's scores, drawn (chapter 06)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn_book.style import BLACK, BLUE, GREY, VERMILION, WIDTH, model_name, term_symbol

#: Colours of the two classes of tokens.
_COLOURS = dict(zip(CLASSES, (BLUE, VERMILION), strict=True))
_PARTS = {"place": "place", "pairs": "$T^{ee}$ of pairs"}


def lost(models: Mapping[str, Ablations]) -> Figure:
    """Loss without each part in all heads: at the classes beyond matched tokens, and at all."""
    rows = {name: one.what[one.head < 0].tolist() for name, one in models.items()}
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(WIDTH, 0.32 * max(map(len, rows.values())) + 1.6),
        sharex=True,
        squeeze=False,
    )
    for ax, (name, found) in zip(axes[0], models.items(), strict=True):
        for row, what in enumerate(rows[name]):
            for shift, of in zip((-0.15, 0.15), CLASSES, strict=True):
                mean, low, high = interval(found.excess(what, of=of))
                ax.plot([low, high], [row + shift] * 2, color=_COLOURS[of], lw=1.5)
                ax.plot(mean, row + shift, "o", color=_COLOURS[of], ms=4.5, label=f"after {of}")
            mean = found.everywhere[0, found.of(what)]
            ax.plot(mean, row, "x", color=BLACK, ms=5, label="all tokens, not compared")
        ax.axvline(0, color=GREY, linewidth=0.8, zorder=0)
        # Evenly within a hundredth of a nat, by factors beyond: place is worth many times the rest.
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set_xticks([-0.1, 0, 0.1, 1], ["−0.1", "0", "0.1", "1"])
        ax.set_yticks(
            range(len(rows[name])), [_PARTS.get(what) or term_symbol(what) for what in rows[name]]
        )
        ax.invert_yaxis()
        ax.set_title(model_name(name))
    figure.supxlabel("loss without it, beyond matched tokens (nats)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=2)
    return figure


def foretold(models: Mapping[str, tuple[Ablations, pd.DataFrame]]) -> Figure:
    """Each head: what the weights tell of its T^ee beside the loss after second pieces without."""
    columns = next(iter(models.values()))[1].columns
    figure, axes = plt.subplots(
        len(models),
        len(columns),
        figsize=(WIDTH, 1.9 * len(models) + 0.6),
        sharey="row",
        sharex="col",
        squeeze=False,
    )
    for line, (name, (found, told)) in zip(axes, models.items(), strict=True):
        by_head = found.by_head("ee")
        low, high = np.quantile(by_head[1:], [0.025, 0.975], axis=0)
        for ax, column in zip(line, columns, strict=True):
            ax.vlines(told[column], low, high, color=BLUE, lw=1)
            ax.plot(told[column], by_head[0], "o", color=BLUE, ms=4)
            for head, (x, y) in enumerate(zip(told[column], by_head[0], strict=True)):
                ax.annotate(str(head), (x, y), (4, 3), textcoords="offset points", fontsize=8)
            ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        line[0].set_ylabel(name)
    for ax, column in zip(axes[-1], columns, strict=True):
        ax.set_xlabel(column.replace("auroc", "AUROC"))
    return figure
