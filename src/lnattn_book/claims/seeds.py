"""Means over seeds with their intervals, as N11 has them."""

from __future__ import annotations

import numpy as np

from lnattn.stats import bootstrap_means
from lnattn_book.claims.intervals import Interval


def bootstrapped(values: np.ndarray) -> Interval:
    """Mean over seeds and its 95 % bootstrap interval; values: [seed]."""
    return Interval(*bootstrap_means(np.asarray(values)[None], draws=10_000)[0].tolist())
