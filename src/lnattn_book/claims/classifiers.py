"""The classifiers of sentiment, as N5 and N6 compare them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lnattn_book.claims.intervals import Interval
from lnattn_book.words import Sentiment

#: The classifiers whose keys can be unselectable.
UNSCALED = ("no-scaling", "none")


def learnt(sentiment: Sentiment, arms: tuple[str, ...], by: float) -> np.ndarray:
    """Whether each arm is trained: in every seed right so much more often than one label."""
    right = np.array([sentiment.right[sentiment.of(arm)].mean(axis=1).min() for arm in arms])
    return np.asarray(right >= sentiment.majority + by)


def in_points(sentiment: Sentiment, shares: Any, sure: np.ndarray) -> dict[str, Any]:
    """Both arms in points; what is not sure, of an arm that learnt nothing, decides nothing."""
    points = 100 * np.array(shares)
    counted = np.where(sure[:, None], points, [0, -np.inf, np.inf])
    seeds = sentiment.right.shape[1]
    return {
        "more": Interval.rows(counted).bonferroni(seeds),
        "seeds": seeds,
        "first": Interval(*points[0]),
        "second": Interval(*points[1]),
    }
