"""Means, standard errors and quantiles of streams that are too long to keep.

`Moments` holds three numbers for each cell, `LogHistogram` a histogram with logarithmic bins. Both
are plain arrays of fixed size, however long the stream, so that a run can be saved and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lnattn.errors import ShapeError


class Moments:
    """Count, sum and sum of squares of a stream of arrays, cell by cell.

    Later arrays may be shorter along the last axis (a shorter document): they count for the cells
    they have.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.count = np.zeros(shape, dtype=np.int64)
        self.total = np.zeros(shape, dtype=np.float64)
        self.squares = np.zeros(shape, dtype=np.float64)

    def add(self, values: np.ndarray, kept: np.ndarray) -> None:
        """Take in one array; `kept` is True where a value counts."""
        n = values.shape[-1]
        exact = np.where(kept, values, 0.0).astype(np.float64, copy=False)
        self.count[..., :n] += kept
        self.total[..., :n] += exact
        self.squares[..., :n] += exact * exact

    @property
    def mean(self) -> np.ndarray:
        """The mean of each cell; NaN where nothing came."""
        return np.divide(
            self.total, self.count, out=np.full(self.total.shape, np.nan), where=self.count > 0
        )

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of each mean (over independent arrays); NaN below two values."""
        several = self.count > 1
        count = np.where(several, self.count, 2)
        variance = (self.squares - self.total**2 / count).clip(min=0) / (count - 1)
        return np.where(several, np.sqrt(variance / count), np.nan)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; `restore` takes them back."""
        return {"count": self.count, "total": self.total, "squares": self.squares}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state of the same shape."""
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ShapeError(f"the saved {name} does not fit this run; delete the saved state.")
            array[...] = state[name]


class LogHistogram:
    """Counts of non-negative numbers in bins of equal width on a logarithmic scale.

    shape: one histogram for each cell of it. Bins cover 2**lowest … 2**highest with `per_octave`
    bins for each factor of 2; smaller numbers (zero among them) and larger ones have a bin each. A
    quantile is read as the geometric middle of its bin: it is off by at most a factor of
    2**(1/(2·per_octave)), 2.2 % at 16 bins an octave.
    """

    def __init__(
        self, shape: Sequence[int], lowest: int = -40, highest: int = 10, per_octave: int = 16
    ) -> None:
        if lowest >= highest or per_octave < 1:
            raise ShapeError("a histogram needs lowest < highest and at least one bin an octave.")
        self.lowest, self.highest, self.per_octave = lowest, highest, per_octave
        self.bins = (highest - lowest) * per_octave + 2
        self.counts = np.zeros((*shape, self.bins), dtype=np.int64)

    @property
    def resolution(self) -> float:
        """The largest relative error of a quantile inside the bins' range."""
        return 2 ** (1 / (2 * self.per_octave)) - 1

    def add(self, values: np.ndarray, cells: np.ndarray, kept: np.ndarray) -> None:
        """Take in numbers; `cells` says, by flat index into `shape`, which histogram each is for.

        values, cells, kept: arrays of one shape; `kept` is True where a value counts.
        """
        numbers = values[kept].astype(np.float64)
        with np.errstate(divide="ignore"):  # log2(0) = −∞ belongs to the lowest bin
            place = np.floor((np.log2(numbers) - self.lowest) * self.per_octave)
        index = np.clip(place, -1, self.bins - 2).astype(np.int64) + 1
        np.add.at(self.counts.reshape(-1), cells[kept] * self.bins + index, 1)

    def quantiles(self, levels: Sequence[float], axis: int | None = None) -> np.ndarray:
        """[level *shape] quantiles; NaN where nothing came. axis: an axis of `shape` to pool.

        The lowest bin reads as 0, the highest as 2**highest. Raises `ShapeError` for a level
        outside 0 … 1.
        """
        wanted = np.asarray(levels, dtype=float)
        if wanted.ndim != 1 or ((wanted < 0) | (wanted > 1)).any():
            raise ShapeError(f"quantile levels must lie in 0 … 1, not {list(levels)}.")
        counts = self.counts if axis is None else self.counts.sum(axis=axis)
        reached = counts.cumsum(axis=-1)
        total = reached[..., -1]
        middles = 2 ** (self.lowest + (np.arange(self.bins - 2) + 0.5) / self.per_octave)
        values = np.concatenate([[0.0], middles, [2.0**self.highest]])
        found = []
        for level in wanted:
            # The smallest value that has at least the share `level` at or below it.
            rank = np.maximum(np.ceil(level * total), 1)
            place = (reached < rank[..., None]).sum(axis=-1)
            found.append(np.where(total > 0, values[np.minimum(place, self.bins - 1)], np.nan))
        return np.stack(found)

    def state(self) -> dict[str, np.ndarray]:
        """The array to save; `restore` takes it back."""
        return {"bins": self.counts}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state of the same shape."""
        if "bins" not in state or state["bins"].shape != self.counts.shape:
            raise ShapeError("the saved histogram does not fit this run; delete the saved state.")
        self.counts[...] = state["bins"]
