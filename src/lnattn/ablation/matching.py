"""Changes of the loss at some tokens beside those at others like them, over whole documents."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from lnattn.stats import resampled_counts


def drawn_documents(documents: int, draws: int, seed: int = 0) -> Int[np.ndarray, "draw document"]:
    """How often each document is taken: all once in row 0, then drawn anew with replacement."""
    drawn = resampled_counts(documents, draws, seed)
    return np.concatenate([np.ones((1, documents), dtype=np.int64), drawn])


def deciles_of(
    values: Shaped[np.ndarray, "n"], chosen: Bool[np.ndarray, "n"], groups: int = 10
) -> Int[np.ndarray, "n"]:
    """The group 0 … groups − 1 of every value, between quantiles of the chosen ones."""
    edges = np.quantile(values[chosen], np.arange(1, groups) / groups)
    return np.searchsorted(edges, values, side="right")


def beside_matched(
    change: Float[np.ndarray, "row n"],
    chosen: Bool[np.ndarray, "n"],
    others: Bool[np.ndarray, "n"],
    cell: Int[np.ndarray, "n"],
    document: Int[np.ndarray, "n"],
    taken: Int[np.ndarray, "draw document"],
) -> tuple[Float[np.ndarray, "draw row 2"], int]:
    """Mean change at the chosen tokens, and at others weighted to fall into cells as those do.

    cell: what tokens are matched by; document: where they stand; taken: of `drawn_documents`, the
    same for all rows. A chosen token in whose cell there is no other is left out; the number is of
    those that remain in row 0.
    """
    cells, documents = int(cell.max(initial=0)) + 1, taken.shape[1]
    place = document * cells + cell
    shape = (documents, cells)

    def per_draw(where: Bool[np.ndarray, "n"], weights: np.ndarray | None = None) -> np.ndarray:
        weights = None if weights is None else weights[where]
        sums = np.bincount(place[where], weights, minlength=documents * cells)
        return taken @ sums.reshape(shape)  # [draw cell]

    n_chosen, n_others = per_draw(chosen), per_draw(others)
    kept = np.where(n_others > 0, n_chosen, 0.0)
    # The others of a cell count as often as the chosen tokens in it.
    weight = np.divide(kept, n_others, out=np.zeros_like(kept), where=n_others > 0)
    total = np.maximum(kept.sum(axis=1), 1.0)
    means = np.empty((len(taken), len(change), 2))
    for row, values in enumerate(change):
        own = np.where(n_others > 0, per_draw(chosen, values), 0.0)
        means[:, row, 0] = own.sum(axis=1) / total
        means[:, row, 1] = (weight * per_draw(others, values)).sum(axis=1) / total
    return means, int(kept[0].sum())
