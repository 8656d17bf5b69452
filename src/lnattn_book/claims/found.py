"""What was found, in words: templates of `book/claims.yml` filled with measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.conditions import Condition
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.listed import Claim
from lnattn_book.claims.measures import Detail
from lnattn_book.claims.verdicts import Leaf, format_measure, listed_words, with_minus


def in_words(about: Claim) -> str:
    """The rule of a claim for readers, with its thresholds."""
    shown = {k: _Listed(v) if isinstance(v, list) else v for k, v in about.rule.items()}
    return with_minus(about.words.format(**shown))


def found(about: Claim, name: str, condition: Condition, measures: Mapping[str, Any]) -> str:
    """What was found of a part: its text with numbers, or in how many heads it holds."""
    texts = about.texts.get("found", {})
    template = texts.get(name, "") if isinstance(texts, Mapping) else ("" if name else texts)
    if template:
        return filled(template, measures)
    return how_many(condition, about.texts.get("each", "heads"))


def how_many(condition: Condition, things: str) -> str:
    """'2 of 8 heads (4 and 7)': of how many things a condition holds, and of which.

    Of one thing alone 'yes', 'no' or 'open'; where intervals leave some open, how many for sure.
    """
    truths = np.atleast_1d(condition.truths)
    asked = [place for place in condition.asked if not np.isnan(truths[place])]
    if not asked:
        return "not asked"
    sure, possible = condition.numbers
    if len(asked) == 1:
        return "open" if sure < possible else "yes" if sure else "no"
    number = f"{sure}" if sure == possible else f"{sure} for sure, at most {possible}"
    holding = [str(place) for place in asked if truths[place] == 1]
    few = 0 < len(holding) < min(max(len(asked), 3), 9)
    which = f" ({listed_words(holding)})" if few else ""
    return f"{number} of {len(asked)} {things}{which}"


def short(
    about: Claim, leaves: Sequence[Leaf], measures: Mapping[str, Any], estimate: float | None
) -> str:
    """The one number by which models are set side by side, if the claim has one."""
    if "short" in about.texts:
        met = leaves[-1].words.split(" (")[0]
        return filled(about.texts["short"], {**measures, "met": met})
    if about.measure and estimate is not None:
        return with_minus(f"{estimate:,.0f}" if abs(estimate) >= 50 else f"{estimate:.2f}")
    return ""


def numbers(measures: Mapping[str, Any]) -> dict[str, float]:
    """Names and numbers of the measures: of arrays the least and the most."""
    named: dict[str, float] = {}
    for name, measure in measures.items():
        if isinstance(measure, str | Detail):
            continue
        value = np.asarray(Interval.of(measure).value, dtype=float)
        clear = name.replace("_", " ")
        known = value[np.isfinite(value)]
        if value.ndim and known.size:
            named[f"{clear}, least"] = float(known.min())
            named[f"{clear}, most"] = float(known.max())
        elif known.size:
            named[clear] = float(value)
    return named


def filled(template: str, measures: Mapping[str, Any]) -> str:
    """A text with the measures in the place of their names in braces."""
    return with_minus(template.format(**{k: _Formatted(v) for k, v in measures.items()}))


class _Formatted:
    """A measure that a template can format."""

    def __init__(self, measure: Any) -> None:
        self.measure = measure

    def __format__(self, spec: str) -> str:
        return format_measure(self.measure, spec)


class _Listed(list[Any]):
    """Values that a rule's words show as 'a, b and c', or one of them by its index."""

    def __str__(self) -> str:
        return listed_words(map(str, self))
