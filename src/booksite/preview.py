"""The picture that stands for the book where a link to it is shared, 1200 × 630 pixels.

`python -m booksite.preview` draws it anew into `book/static/preview.png`, from the embedded
model: the six terms of the scores of one sentence in one head.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lnattn.attention.folding import fold
from lnattn.attention.terms import TERMS, six_terms
from lnattn.book.style import BLUE, DIVERGING, settings
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import repository
from lnattn.relative import with_positions

SENTENCE = "The city of New York lies on the coast of the Atlantic Ocean."
HEAD = 2
SIZE, DPI = (12.0, 6.3), 100


def draw() -> Figure:
    """The title of the book beside the six terms, each scaled to its own largest size."""
    model = with_positions(load_first_layer("book-gpt2"))
    ids = model.tokenizer(SENTENCE, return_tensors="pt").input_ids[0]
    terms = six_terms(fold(model.attention), model.embeddings, ids)
    with mpl.rc_context(settings()):
        figure = Figure(figsize=SIZE, dpi=DPI, layout="none")
        FigureCanvasAgg(figure)
        figure.text(0.05, 0.62, "LayerNorm\nand attention,", size=44, weight="bold", va="center")
        figure.text(0.05, 0.40, "read from the weights", size=30, va="center", color=BLUE)
        figure.text(0.05, 0.22, "An executable book", size=22, va="center")
        for number, name in enumerate(TERMS):
            row, column = divmod(number, 3)
            ax = figure.add_axes((0.53 + 0.152 * column, 0.52 - 0.40 * row, 0.136, 0.26))
            whole = np.broadcast_to(getattr(terms, name)[HEAD].numpy(), (len(ids), len(ids)))
            seen = np.where(np.tri(len(ids), dtype=bool), whole, np.nan)
            top = np.nanmax(np.abs(seen))
            ax.imshow(seen, cmap=DIVERGING, vmin=-top, vmax=top)
            ax.set_title(f"$T^{{{name}}}$", size=24, loc="center")
            ax.set_xticks([])
            ax.set_yticks([])
    return figure


def main() -> int:
    path = repository() / "book" / "static" / "preview.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    # No date and no version in the file: the same picture is the same bytes.
    draw().savefig(path, dpi=DPI, metadata={"Software": None}, bbox_inches=None)
    print(Path(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
