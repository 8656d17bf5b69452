"""Verdicts, and records of what was found about a claim. What judges is in `rules`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.measures import Detail

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
#: What stands in place of a verdict where a claim was not asked, for want of its own checkpoint or
#: else, and where it is a derivation.
ABSENT, NOT_ASKED = "needs its checkpoint", "not asked"
DERIVED = "identity or arithmetic"
#: The marks of all that a claim can count as.
SIGNS: Mapping[str, str] = {**VERDICTS, ABSENT: "–", NOT_ASKED: "·", DERIVED: "="}
#: A verdict that stands in less of its grid than this is called fragile.
FRAGILE = 0.8


@dataclass(frozen=True)
class Leaf:
    """A part of a compound claim with a verdict of its own, and what was measured for it."""

    name: str
    verdict: str
    words: str


@dataclass(frozen=True)
class Record:
    """What was found about a claim in one model.

    verdict: one of `VERDICTS`; words: what was found; values: the numbers behind the words; note:
    what limits the verdict, and for 'undecided' what would decide; short: the one number by which
    models are set side by side. estimate, unit, interval (95 %), null (what chance or an untrained
    twin gives) and n (how many were judged): see `effect_fields`; exact: whether nothing is drawn,
    so that there is no interval; leaves: the parts of a compound claim. null_model: what learnt
    nothing; null_verdict: what it gets by the same rule; null_draws: in how many draws of how many.
    claim, model, rule, kind, before (the verdict by the rule that this one replaced, if any) and
    stands (in how many cases of the grid the verdict is the same, and of how many) come from the
    `Rule`; function, cell, counted, chapter and execution from the chapter that registers it.
    """

    verdict: str
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    short: str = ""
    estimate: float | None = None
    unit: str = ""
    interval: tuple[float, float] | None = None
    null: float | None = None
    n: int | None = None
    exact: bool = False
    leaves: tuple[Leaf, ...] = ()
    null_model: str = ""
    null_verdict: str = ""
    null_draws: tuple[int, int] | None = None
    kind: str = ""
    claim: str = ""
    model: str = ""
    rule: str = ""
    before: str = ""
    stands: tuple[int, int] | None = None
    function: str = ""
    cell: str = ""
    counted: bool = True
    chapter: str = ""
    execution: int = 0

    @classmethod
    def of(cls, leaves: Sequence[Leaf], **more: Any) -> Record:
        """The record of a compound claim: words and verdict are those of its parts."""
        words = "; ".join(f"{leaf.name}: {leaf.words}" for leaf in leaves)
        return cls(total(leaves), words, leaves=tuple(leaves), **more)

    @property
    def mark(self) -> str:
        """The verdict's sign."""
        return VERDICTS[self.verdict]

    def __str__(self) -> str:
        return f"{self.claim} {self.verdict} ({self.model}): {self.words}"


def effect_fields(value: Any, unit: str = "", null: Any = None, n: Any = None) -> dict[str, Any]:
    """The fields of a record's effect; value: a number, or one with the ends of its interval.

    What is not finite, such as a median that no run reached, is left out.
    """
    numbers = [float(number) for number in np.atleast_1d(value)]
    estimate = numbers[0]
    ends = numbers[1:]
    if not np.isfinite(estimate):
        return {}
    return {
        "estimate": estimate,
        "unit": unit,
        "interval": (ends[0], ends[1]) if ends and np.isfinite(ends).all() else None,
        "null": None if null is None else float(null),
        "n": None if n is None else int(n),
    }


def total(leaves: Iterable[Leaf]) -> str:
    """The verdict on a compound claim, from those of its parts; only here can it hold in part."""
    verdicts = {leaf.verdict for leaf in leaves} - {NOT_COMPUTABLE}
    if verdicts <= {HOLDS}:
        return HOLDS if verdicts else NOT_COMPUTABLE
    if HOLDS in verdicts and verdicts & {FAILS, NOT_SEEN}:
        return HOLDS_IN_PART
    return UNDECIDED if UNDECIDED in verdicts else FAILS if FAILS in verdicts else NOT_SEEN


def counts_as(about: Claim, verdict: str) -> str:
    """The verdict, or `DERIVED` for a derivation, whether it holds or fails as it is written."""
    judged = verdict not in (NOT_COMPUTABLE, ABSENT, NOT_ASKED)
    return DERIVED if about.kind == "derivation" and judged else verdict


# --- words --------------------------------------------------------------------------------------


def effect(record: Record) -> str:
    """The estimate with unit, interval, chance and n, as far as they are known."""
    if record.estimate is None:
        return ""
    ends = ", exact: nothing is drawn" if record.exact else ""
    if record.interval:
        ends = f" [{record.interval[0]:.3g}, {record.interval[1]:.3g}]"
    chance = "" if record.null is None else f", chance {record.null:.3g}"
    number = "" if record.n is None else f", n = {record.n:,}"
    unit = f" {record.unit}" if record.unit else ""
    return with_minus(f"{record.estimate:.3g}{unit}{ends}{chance}{number}")


def robustness(record: Record) -> str:
    """'the verdict stands with 18 of 25 thresholds (72%): fragile'; '' where there is no grid."""
    if record.stands is None:
        return ""
    same, cases = record.stands
    fragile = ": fragile" if same < FRAGILE * cases else ""
    share = f"{same} of {cases} choices of thresholds ({same / cases:.0%})"
    return f"the verdict stands with {share}{fragile}"


def listed_words(parts: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b and c'; '' for nothing."""
    *others, last = list(parts) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def with_minus(text: str) -> str:
    """Text with the hyphen before a number replaced by a minus sign; 5e-15 keeps its own."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def format_measure(measure: Any, spec: str = "") -> str:
    """A measure as a sentence has it: '3.1 [2.0, 4.2]', '0.1 to 0.9' of heads, 'yes', a text."""
    if isinstance(measure, Detail):
        measure = measure.value
    if isinstance(measure, str):
        return measure
    if isinstance(measure, bool | np.bool_):
        return "yes" if measure else "no"
    value, low, high = map(np.asarray, Interval.of(measure))
    if value.ndim:
        known = value[~np.isnan(value)]
        return f"{known.min():{spec}} to {known.max():{spec}}" if known.size else "none"
    shown = f"{float(value):{spec}}" if spec else f"{float(value):.15g}"
    return f"{shown} [{float(low):{spec}}, {float(high):{spec}}]" if low < high else shown
