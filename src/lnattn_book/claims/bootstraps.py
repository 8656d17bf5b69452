"""Means over seeds with bootstrap intervals, as N10 and N11 have them."""

from __future__ import annotations

import numpy as np

from lnattn.stats import bootstrap_means
from lnattn_book.claims.intervals import Interval


def bootstrapped(values: np.ndarray) -> Interval:
    """Mean over seeds and its 95 % bootstrap interval; values: [seed]."""
    return Interval(*bootstrap_means(np.asarray(values)[None], draws=10_000)[0].tolist())


def geometric(values: np.ndarray) -> Interval:
    """Geometric mean over seeds and its 95 % bootstrap interval; values: [seed], above 0."""
    return Interval(*np.exp(bootstrapped(np.log(values))))
