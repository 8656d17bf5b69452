"""Running statistics of contributions, and the conventions by which they are counted.

Means, standard errors and quantiles are taken in a stream of documents; no row is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lnattn.errors import ResultError, ShapeError
from lnattn.numerics.streaming import LogHistogram, Moments
from lnattn.storage import read_result, write_result

#: Groups of positions for quantiles: this many for each doubling of the position.
_GROUPS_PER_OCTAVE = 4


@dataclass(frozen=True)
class Convention:
    """How a contribution is counted.

    scaled: divide the scores by √d_head before the softmax, as the model does. per_key: divide the
    divergence by the number of keys. floor: leave out rows at or below this value. ends: keep the
    last position of the context.
    """

    name: str
    scaled: bool
    per_key: bool
    floor: float | None
    ends: bool


#: What the paper's text defines.
TEXT = Convention("text", scaled=True, per_key=False, floor=None, ends=True)
#: What the code that the authors released computes: a softmax without 1/√d_head; torch's
#: `kl_div(reduction="mean")`, which divides by the number of keys; rows ≤ 1e-10 and the last
#: position left out of the figure.
PAPERS_CODE = Convention("papers' code", scaled=False, per_key=True, floor=1e-10, ends=False)

#: Quantiles that are frozen with a result.
LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


def position_groups(n: int) -> np.ndarray:
    """Edges of groups of positions: 0, 1, 2, … singly, then four groups for each doubling.

    Group g holds positions edges[g] … edges[g + 1] − 1; the last edge is n.
    """
    if n < 1:
        raise ShapeError(f"positions can be grouped for a context of 1 or more, not {n}.")
    count = int(np.ceil(np.log2(n + 1) * _GROUPS_PER_OCTAVE)) + 1
    edges = np.floor(2 ** (np.arange(count) / _GROUPS_PER_OCTAVE)).astype(int)
    return np.unique(np.concatenate([[0], edges[edges < n], [n]]))


class Tally:
    """Running statistics of a study; all but two numbers a document and term have a fixed size."""

    def __init__(
        self,
        shape: tuple[int, int],
        positions: int,
        convention: Convention,
        causal: bool,
        source: str,
    ) -> None:
        terms, heads = shape
        self.convention, self.causal, self.positions = convention, causal, positions
        self.source = source
        self.documents = 0
        self.tokens = 0
        self.by_document: list[np.ndarray] = []  # of each document [sums and rows, term]
        self.edges = position_groups(positions)
        self.moments = Moments((terms, heads + 1, positions))
        self.histogram = LogHistogram((terms, heads + 1, len(self.edges) - 1))
        group = np.searchsorted(self.edges, np.arange(positions), side="right") - 1
        slots = np.arange(terms * (heads + 1)).reshape(terms, heads + 1, 1)
        self._cells = slots * (len(self.edges) - 1) + group

    def add(self, divergence: np.ndarray) -> None:
        """Take in the [term head n] divergences of one document."""
        n = divergence.shape[-1]
        keys = np.arange(1, n + 1) if self.causal else np.full(n, n)
        values = divergence.astype(np.float64)
        if self.convention.per_key:
            values /= keys
        values = np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)
        kept = np.ones(values.shape, dtype=bool)
        if self.convention.floor is not None:
            kept &= values > self.convention.floor
        if not self.convention.ends:
            kept[..., self.positions - 1 :] = False
        self.moments.add(values, kept)
        chosen = kept[:, -1, int(self.causal) :]
        sums = np.where(chosen, values[:, -1, int(self.causal) :], 0.0).sum(axis=-1)
        self.by_document.append(np.stack([sums, chosen.sum(axis=-1)]))
        self.histogram.add(values, self._cells[..., :n], kept)
        self.documents += 1
        self.tokens += n

    def overall(self) -> np.ndarray:
        """Quantiles over all positions where a query has a choice: group 0 is position 0 alone."""
        pooled = LogHistogram(self.histogram.counts.shape[:2])
        first = 1 if self.causal else 0
        pooled.counts[...] = self.histogram.counts[:, :, first:].sum(axis=2)
        return pooled.quantiles(LEVELS)

    def save(self, folder: Path, name: str) -> None:
        arrays = {**self.moments.state(), **self.histogram.state()}
        arrays["by_document"] = np.array(self.by_document)
        progress = {"documents": self.documents, "tokens": self.tokens, "source": self.source}
        write_result(folder, name, arrays, progress)

    def resume(self, folder: Path, name: str) -> None:
        """Continue where a stopped run of the same study saved its state, if one did."""
        if not (folder / f"{name}.json").is_file():
            return
        arrays, progress = read_result(folder, name)
        if progress.get("source") != self.source:
            raise ResultError(
                f"{folder}/{name}.json belongs to another study (model, corpus or convention); "
                "delete it, or save this study elsewhere."
            )
        self.moments.restore(arrays)
        self.histogram.restore(arrays)
        self.by_document = list(arrays["by_document"])
        self.documents, self.tokens = int(progress["documents"]), int(progress["tokens"])
