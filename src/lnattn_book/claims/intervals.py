"""Numbers with the ends of their intervals: what a claim's measures are compared by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A number, or one for each head, with the ends of its 95 % interval."""

    value: Any
    low: Any
    high: Any

    @classmethod
    def of(cls, measure: Any) -> Interval:
        """Of a number or an array [head], an estimate, a correlation, or an array [case head].

        Cases are assumptions about what is not known: the interval reaches over all of them.

        >>> Interval.of(2.0)
        Interval(value=array(2.), low=array(2.), high=array(2.))
        """
        if isinstance(measure, cls):
            return measure
        if hasattr(measure, "low"):
            value = measure.rho if hasattr(measure, "rho") else measure.value
            return cls(value, measure.low, measure.high)
        values = np.asarray(measure, dtype=np.float64)
        if values.ndim == 2:
            return cls(np.median(values, axis=0), values.min(axis=0), values.max(axis=0))
        return cls(values, values, values)

    @classmethod
    def rows(cls, table: Any) -> Interval:
        """Of rows of mean, low and high."""
        return cls(*np.asarray(table, dtype=np.float64).reshape(-1, 3).T)

    @classmethod
    def bootstrap_ratio(cls, over: np.ndarray, under: np.ndarray, draws: int = 2000) -> Interval:
        """Of sums of `over` [n …] through sums of `under` [n …], when n things are drawn anew."""
        from lnattn.stats import resampled_ratios  # here: pages that show verdicts compute none

        low, high = np.quantile(resampled_ratios(over, under, draws), (0.025, 0.975), axis=0)
        return cls(over.sum(axis=0) / under.sum(axis=0), low, high)

    @classmethod
    def bootstrap_median(cls, values: np.ndarray, draws: int = 2000) -> Interval:
        """The median of values [n], when n of them are drawn anew."""
        n = len(values)
        picks = np.random.default_rng(0).integers(n, size=(draws, n))
        low, high = np.quantile(np.median(values[picks], axis=1), (0.025, 0.975))
        return cls(np.median(values), low, high)

    def bonferroni(self, runs: int | None = None) -> Interval:
        """Stretched so that all of its intervals hold together.

        runs: of how many runs they are means, by Student's t; None: of many, by the normal law.
        """
        from scipy.stats import norm, t  # here: as above

        value, low, high = map(np.asarray, self)
        law = norm if runs is None else t(max(runs - 1, 1))
        stretch = law.ppf(1 - 0.025 / max(value.size, 1)) / law.ppf(0.975)
        return Interval(value, value - stretch * (value - low), value + stretch * (high - value))
