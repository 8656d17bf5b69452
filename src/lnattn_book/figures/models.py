"""Figures and the table that set models side by side (chapter 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lnattn_book.claims.listed import claim as claim_of
from lnattn_book.claims.verdicts import Record
from lnattn_book.style import DIVERGING, PALETTE, WIDTH, model_name


def claims_by_models(columns: Mapping[str, Mapping[str, Record]]) -> pd.DataFrame:
    """One row a claim, one column a model: the verdict's mark, and the claim's one number.

    columns: model name → its survey.
    """
    claims = list(next(iter(columns.values())))
    rows = {
        claim: {
            "measure": claim_of(claim).measure,
            **{
                name: f"{one[claim].mark} {one[claim].short}".strip()
                for name, one in columns.items()
            },
        }
        for claim in claims
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("claim")


def affinity_maps(
    scores: np.ndarray, labels: Sequence[str], heads: Sequence[int], marked: Sequence[tuple]
) -> Figure:
    """T^ee of some tokens with each other, one panel a head, centred on each row.

    scores: [head query key]; marked: for each panel the (query, key) to put a frame around.
    """
    panels = scores - scores.mean(axis=-1, keepdims=True)
    limit = float(np.abs(panels).max())
    figure, axes = plt.subplots(
        1, len(heads), figsize=(WIDTH, WIDTH / len(heads) + 1.5), sharey=True, squeeze=False
    )
    for ax, panel, head, (query, key) in zip(axes[0], panels, heads, marked, strict=True):
        image = ax.imshow(panel, cmap=DIVERGING, vmin=-limit, vmax=limit)
        ax.set_title(f"head {head}")
        ax.set_xticks(range(len(labels)), labels, rotation=90)
        ax.set_yticks(range(len(labels)), labels)
        frame = plt.Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, lw=2.5, ec="black")
        ax.add_patch(frame)
    axes[0][0].set_ylabel("query token")
    axes[0][len(heads) // 2].set_xlabel("key token")
    figure.colorbar(
        image, ax=axes, location="top", aspect=40, label="$T^{ee}$ minus its mean over the row"
    )
    return figure


def position_variances(curves: Mapping[str, np.ndarray]) -> Figure:
    """Var(p_j) over its median, against position + 1, both on logarithmic axes."""
    figure, ax = plt.subplots()
    for number, (name, variance) in enumerate(curves.items()):
        ax.plot(
            np.arange(1, len(variance) + 1),
            variance / np.median(variance),
            label=model_name(name),
            color=PALETTE[number % len(PALETTE)],
            marker="osD^"[number % 4],
            markevery=[0, -1],
            linewidth=1.4,
            zorder=len(curves) - number,
        )
    ax.set(xscale="log", yscale="log", xlabel="position $j$ + 1", ylabel="Var($p_j$) / median")
    ax.legend()
    return figure
