"""Means over seeds with their intervals, as N10 and N11 have them."""

from __future__ import annotations

import numpy as np

from lnattn.errors import ResultError
from lnattn.stats import bootstrap_means
from lnattn_book.claims.intervals import Interval
from lnattn_book.language_models import mean_and_interval


def bootstrapped(values: np.ndarray) -> Interval:
    """Mean over seeds and its 95 % bootstrap interval; values: [seed]."""
    return Interval(*bootstrap_means(np.asarray(values)[None], draws=10_000)[0].tolist())


def geometric(values: np.ndarray) -> Interval:
    """Geometric mean over seeds and its 95 % interval by Student's t; values: [seed], above 0.

    Raises `ResultError` for no seed.
    """
    if not len(values):
        raise ResultError("a mean over seeds needs a seed; there is none.")
    return Interval(*np.exp(mean_and_interval(np.log(values))))
