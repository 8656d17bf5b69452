"""A figure that sets models side by side (chapter 11)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lnattn_book.claims.verdicts import VERDICTS, Record
from lnattn_book.page.dark import AS_IT_IS
from lnattn_book.page.style import SMALL, VERDICT_COLOURS, WIDTH, model_name

#: The claims that every model is judged by, in a few words.
_SHORT = {
    "K3": "a name's words find each other",
    "K4": "heads for the same token",
    "K5": "heads that detokenize",
    "K6": "$T^{p}$ rises",
    "K7": "$T^{pp}$ undulates, high near",
    "K8": "attention is near, no wave",
    "K9": "on text, head follows position",
    "K10": "four terms count",
    "K11": "$T^{e}$ goes with frequency",
    "K12": "rare tokens vary more",
    "K13": "the first position stands apart",
    "K14": "the last row is flat",
    "K15": "a switch at the first token",
}
#: Verdicts whose names the key shortens.
_WORDS = {"holds in part": "in part", "not seen in this model": "not seen"}


def verdict_grid(columns: Mapping[str, Mapping[str, Record]]) -> Figure:
    """One row a claim, one column a model, coloured by verdict; a ring where no null gets as far.

    columns: model name → its survey; that of its null under the same name with ', null'.
    """
    names = list(columns)
    claims = list(next(iter(columns.values())))
    figure, ax = plt.subplots(figsize=(WIDTH, 6.2))
    for x, name in enumerate(names):
        width = 0.5 if name.endswith("null") else 0.94
        for y, claim in enumerate(claims):
            record = columns[name][claim]
            fill = VERDICT_COLOURS[record.verdict]
            ax.add_patch(
                plt.Rectangle((x - width / 2, y - 0.45), width, 0.9, fc=fill, gid=AS_IT_IS)
            )
            ax.text(x, y, record.mark, ha="center", va="center", gid=AS_IT_IS)
    trained = [name for name in names if not name.endswith("null")]
    for y, claim in enumerate(claims):
        good = {n: columns[n][claim].verdict in ("holds", "holds in part") for n in names}
        if all(good[n] for n in trained) and not any(good[n] for n in names if n not in trained):
            edge = (-0.62, y - 0.5), len(names) + 0.05, 1.0
            ax.add_patch(plt.Rectangle(*edge, fill=False, lw=1.8, ec="black", clip_on=False))
    labels = ["null" if n.endswith("null") else _in_two_lines(model_name(n)) for n in names]
    ax.set_xticks(range(len(names)), labels, fontsize=SMALL)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(claims)), [f"{_SHORT[claim]}  {claim}" for claim in claims])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(-0.65, len(names) - 0.5), ylim=(len(claims) - 0.45, -0.55))
    keys = [
        Patch(fc=colour, label=f"{VERDICTS[verdict]} {_WORDS.get(verdict, verdict)}")
        for verdict, colour in VERDICT_COLOURS.items()
    ]
    key = figure.legend(handles=keys, loc="outside lower center", ncols=3, handlelength=1)
    for patch in key.get_patches():  # a legend draws copies
        patch.set_gid(AS_IT_IS)
    return figure


def _in_two_lines(name: str) -> str:
    """A name that is longer than its column, broken behind its first hyphen."""
    return name.replace("-", "-\n", 1) if len(name) > 8 else name
