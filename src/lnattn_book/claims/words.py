"""Verdicts, and the phrases that records are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lnattn.errors import ResultError

HOLDS = "holds"
HOLDS_IN_PART = "holds in part"
FAILS = "fails"
NOT_SEEN = "not seen in this model"
UNDECIDED = "undecided"
NOT_COMPUTABLE = "not computable"

#: The verdicts and the mark that stands before each in a table.
VERDICTS: Mapping[str, str] = {
    HOLDS: "✓",
    HOLDS_IN_PART: "◐",
    FAILS: "✗",
    NOT_SEEN: "○",
    UNDECIDED: "?",
    NOT_COMPUTABLE: "–",
}


def graded(flags: Iterable[Any], none: str = FAILS, some: str = HOLDS_IN_PART) -> str:
    """'Holds' if all flags are set, `some` if some are, `none` if none is."""
    flags = [bool(one) for one in flags]
    return HOLDS if all(flags) else some if any(flags) else none


def by_interval(low: float, high: float) -> str:
    """'Holds' if an interval lies above 0, 'fails' if below, else 'undecided'."""
    return HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED


def of_heads(flags: Iterable[Any], none: str = FAILS) -> tuple[str, str]:
    """The verdict and a phrase such as '11 of 12 heads', from one flag for each head.

    All heads: the claim holds; some: in part; none: `none`. flags may be [case head], where cases
    are assumptions about what is not known: if they lead to different verdicts, it is undecided.
    """
    cases = np.atleast_2d(np.asarray(list(flags), dtype=bool))
    if cases.size == 0:
        raise ResultError("a verdict needs at least one head.")
    sure, possible = np.asarray(cases.all(axis=0)), np.asarray(cases.any(axis=0))
    least, most, heads = int(sure.sum()), int(possible.sum()), cases.shape[1]
    found = {graded(list(sure), none), graded(list(possible), none)}
    words = f"{least} of {heads} heads" if least == most else f"{least} to {most} of {heads} heads"
    return (found.pop() if len(found) == 1 else UNDECIDED), words


def heads_where(flags: Iterable[Any]) -> str:
    """The heads whose flag is set, for a sentence: '0, 2 and 3'; 'none' where there is none."""
    return listed_words([str(head) for head, flag in enumerate(flags) if flag]) or "none"


def listed_words(parts: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b and c'; '' for nothing."""
    *others, last = list(parts) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def with_minus(text: str) -> str:
    """Text with the hyphen before a number replaced by a minus sign; 5e-15 keeps its own."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)
