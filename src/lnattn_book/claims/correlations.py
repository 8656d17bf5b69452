"""Rank correlations of several heads, as K11, K17 and K19 compare them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lnattn.stats import Correlation
from lnattn_book.claims.intervals import Interval


def absolute_correlations(correlations: Sequence[Correlation]) -> Interval:
    """|ρ| of each head, with intervals that hold for all of them together."""
    rows = np.array(
        [(correlation.rho, correlation.low, correlation.high) for correlation in correlations]
    )
    value, low, high = np.abs(rows).T
    holds_zero = rows[:, 1] * rows[:, 2] <= 0
    nearest = np.where(holds_zero, 0.0, np.minimum(low, high))
    return Interval(value, nearest, np.maximum(low, high)).bonferroni()
