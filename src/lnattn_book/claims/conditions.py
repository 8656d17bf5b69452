"""Conditions on measures: comparisons with limits that an interval can leave open.

`below(score, 0) & above(amplification, 1.1)` says for each head whether both hold: 1 if so, 0 if
not, ½ where an interval holds the limit, NaN where there was nothing to ask. `any_of`, `every`,
`most`, `at_least_n` and `at` say for how many heads, or for which. 'And' and 'every' are the least
of truths, 'any' is the largest (Kleene's logic).

>>> every(above([3.0, 2.0], 2.5)).truth
0.0
>>> any_of(above([3.0, 2.0], 2.5)).truth
1.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Any

import numpy as np

from lnattn_book.claims.intervals import Interval


@dataclass(frozen=True)
class Truths:
    """Of each thing that was asked, whether it holds: 1, 0, ½ (open) or NaN (not asked)."""

    values: np.ndarray

    def __and__(self, other: Truths) -> Truths:
        return Truths(np.asarray(np.minimum(self.values, other.values)))

    def __or__(self, other: Truths) -> Truths:
        return Truths(np.asarray(np.maximum(self.values, other.values)))


@dataclass(frozen=True)
class Condition:
    """Whether what is asked holds of as many things as it should.

    truth: 1, 0, ½ or NaN; truths: of each thing; asked: the indices that the condition is about.
    """

    truth: float
    truths: np.ndarray
    asked: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, int]:
        """How many hold for sure, and how many may."""
        known = self.truths[list(self.asked)]
        return int((known == 1).sum()), int((known >= 0.5).sum())


def _compare(sign: Callable[..., Any], measure: Any, limit: Any) -> Truths:
    value, low, high = map(np.asarray, Interval.of(measure))
    than = float(Interval.of(limit).value)
    true = (np.asarray(sign(low, than), dtype=float) + sign(high, than)) / 2
    return Truths(np.where(np.isnan(value), np.nan, true))


def above(measure: Any, limit: Any) -> Truths:
    """Whether each value lies above a limit, with the whole of its interval."""
    return _compare(gt, measure, limit)


def at_least(measure: Any, limit: Any) -> Truths:
    """Whether each value is a limit or more, with the whole of its interval."""
    return _compare(ge, measure, limit)


def below(measure: Any, limit: Any) -> Truths:
    """Whether each value lies below a limit, with the whole of its interval."""
    return _compare(lt, measure, limit)


def at_most(measure: Any, limit: Any) -> Truths:
    """Whether each value is a limit or less, with the whole of its interval."""
    return _compare(le, measure, limit)


def equal(measure: Any, limit: Any) -> Truths:
    """Whether each value is this number."""
    return _compare(eq, measure, limit)


def is_true(measure: Any) -> Truths:
    """A truth that was found elsewhere: of each thing yes or no, or ½ for open."""
    return Truths(np.asarray(measure, dtype=np.float64))


def at_least_n(n: int, truths: Truths) -> Condition:
    """Whether n things or more satisfy what was asked."""
    return _counted(truths, lambda _: n)


def any_of(truths: Truths) -> Condition:
    """Whether one thing or more satisfies what was asked."""
    return _counted(truths, lambda _: 1)


def most(truths: Truths) -> Condition:
    """Whether more than half of the things satisfy what was asked."""
    return _counted(truths, lambda size: size // 2 + 1)


def every(truths: Truths) -> Condition:
    """Whether all things satisfy what was asked."""
    return _counted(truths, lambda size: size)


def at(places: Sequence[int] | int, truths: Truths) -> Condition:
    """Whether the things at these places satisfy what was asked."""
    asked = (places,) if isinstance(places, int) else tuple(places)
    return _counted(truths, lambda size: size, asked)


def each(names: Sequence[str], truths: Truths) -> dict[str, Condition]:
    """By name, whether each thing satisfies what was asked.

    >>> each(["wide", "deep"], above([3.0, 2.0], 2.5))["deep"].truth
    0.0
    """
    return {name: at(place, truths) for place, name in enumerate(names)}


def _counted(
    truths: Truths, least: Callable[[int], int], places: tuple[int, ...] | None = None
) -> Condition:
    """The condition that `least` of the things which could be asked satisfy something."""
    listed = np.atleast_1d(truths.values)
    asked = tuple(range(len(listed))) if places is None else places
    known = listed[list(asked)]
    known = np.sort(known[~np.isnan(known)])
    if not known.size:
        return Condition(np.nan, listed, asked)
    number = least(known.size)
    truth = float(known[-number]) if number <= known.size else 0.0
    return Condition(truth, listed, asked)
