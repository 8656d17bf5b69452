"""A sentence checks itself: the numbers in its words are compared with those that were computed.

A chapter's module says in `checks` what its page claims, a `says` a sentence:

    def checks(losses, heads):
        yield says("loses 0.96 nats without where, 0.03 without what", losses.where, losses.what)
        yield says("heads 4 and 5 predict better than the list", heads.index, heads.lead > 0)

The page calls it in its last cell, `page.table(chapter.checks(losses, heads))`, which shows each
sentence with what was found. A build warns of each that does not hold. A reader's changed chapter
runs on, and the table says what has changed.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lnattn.errors import LnattnError, ResultError
from lnattn_book.page.digits import is_spelled_in, numbers_in

#: What a page's outputs say about themselves stands under this name in their metadata.
METADATA = "lnattn"
#: What computing with the numbers of a reader's model may raise.
RAISED = (
    ArithmeticError,
    AttributeError,
    LnattnError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
SO, NOT_SO = "so", "not so"


@dataclass(frozen=True)
class Check:
    """A sentence of the page, and what came of it.

    words: as they stand on the page. found: the numbers, as the sentence would print them with a
    digit more; or what is wrong. holds: whether all of it is so.
    """

    words: str
    found: str
    holds: bool

    @property
    def message(self) -> str:
        """One line for a build's log."""
        return f"The page says ‘{self.words}’; it finds {self.found}."


def says(words: str, *values: Any, found: Any = None) -> Check:
    """Whether the numbers in a sentence, or part of one, are the values beside them.

    words: as they stand on the page; '…' for what is left out between two parts of a sentence, and
    asterisks around a name that looks like a number (**1**). values: one for each number of the
    words, in order, sequences of them in one; it is compared as printed, so that '27 %' is right
    for .2650 to .2750. Behind 'less than', 'more than', 'below', 'above', and beside 'at most', 'up
    to', 'at least', 'or more', a number is a bound, which no rounding helps.
    True and False among the values, and arrays of them, are conditions: all must be true, and an
    array must not be empty. Words without a number need one, and so do numbers in letters. A
    function among the values is called here: an error in it is a sentence that does not hold.
    found: the number, or numbers, that a condition is about, to be shown in place of 'so'.

    >>> says("27 % of 2,609 pieces, more than any head", 0.2654, 2609, 0.2654 > 0.21)
    Check(words='27 % of 2,609 pieces, more than any head', found='26.5 %, 2,609, so', holds=True)
    >>> says("loses 0.96 nats", 0.9449).found, says("loses 0.96 nats", 0.9449).holds
    ('0.945', False)
    >>> says("the longest is threefold", 2.5 < 2.9 < 3.5, found=2.9).found
    '2.9'
    """
    try:
        sorted_out = _sorted_out(values)
        about = [] if found is None else _sorted_out([found]).numbers
        return Check(words, *_compared(words, *sorted_out, about))
    except RAISED as error:
        return Check(words, in_words(error), holds=False)


class Values(NamedTuple):
    """What stands beside the words: numbers, and truth values."""

    numbers: list[float]
    conditions: list[bool]


def _sorted_out(values: Iterable[Any]) -> Values:
    """Numbers and conditions apart, each in order. Raises `ResultError` for what is neither."""
    sorted_out = Values([], [])
    for value in values:
        array = _as_array(value() if callable(value) else value)
        if array.size == 0:
            raise ResultError("a condition, or a list of numbers, is empty: it says nothing")
        if array.dtype == bool:
            sorted_out.conditions.append(bool(array.all()))
        elif array.dtype.kind in "iuf":
            sorted_out.numbers.extend(float(number) for number in array.flat)
        else:
            raise ResultError(f"{value!r:.60} is neither a number nor true or false")
    return sorted_out


def _as_array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a tensor; builds read checks without PyTorch
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _compared(
    words: str, values: list[float], conditions: list[bool], about: list[float]
) -> tuple[str, bool]:
    """What was found, in words, and whether it is what the words say."""
    numbers = numbers_in(words)
    shown = [number.like(value) for number, value in zip(numbers, values, strict=False)]
    shown += [_short(value) for value in [*values[len(numbers) :], *about]]
    if not about:
        shown += [SO if condition else NOT_SO for condition in conditions]
    found = ", ".join(shown)
    if len(values) != len(numbers):
        printed = ", ".join(number.text for number in numbers) or "none"
        return f"{len(values)} numbers ({found}) for those of the words ({printed})", False
    if not conditions and (is_spelled_in(words) or not numbers):
        return f"{found}, but no condition".lstrip(", "), False
    fit = all(number.fits(value) for number, value in zip(numbers, values, strict=True))
    return found, fit and all(conditions)


def _short(value: float) -> str:
    """A number in four digits or more: all of those before the point."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def in_words(error: Exception) -> str:
    """An error as one line: its kind and the first line of what it says."""
    lines = str(error).strip().splitlines()
    if isinstance(error, LnattnError) and lines:
        return lines[0].rstrip(".")
    return f"{type(error).__name__}: {lines[0]}".rstrip(".") if lines else type(error).__name__


# ---- The table of a page -------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckTable:
    """The checked sentences of a page, as an output of its last cell."""

    checks: tuple[Check, ...]

    @property
    def told(self) -> str:
        """How many hold, in one line."""
        holding = sum(check.holds for check in self.checks)
        return f"{holding} of {len(self.checks)} checked sentences hold."

    def __repr__(self) -> str:
        failing = [check.message for check in self.checks if not check.holds]
        return "\n".join([self.told, *failing])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr class="check-{"holds" if check.holds else "fails"}">'
            f"<td>{html.escape(check.words)}</td><td>{html.escape(check.found)}</td>"
            f"<td>{'✓' if check.holds else '✗'}</td></tr>"
            for check in self.checks
        )
        head = "<tr><th>The page says</th><th>Found here</th><th>Holds</th></tr>"
        return (
            f'<table class="checks"><caption>{self.told}</caption>'
            f"<thead>{head}</thead><tbody>{rows}</tbody></table>"
        )

    def _repr_mimebundle_(self, **_kinds: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """What is shown, and the same for a build, as the output's metadata."""
        checks = [asdict(check) for check in self.checks]
        shown = {"text/plain": repr(self), "text/html": self._repr_html_()}
        return shown, {METADATA: {"checks": checks}}


def table(checks: Iterable[Check]) -> CheckTable:
    """The table of a page's checked sentences: the words, what was found, and whether they hold.

    checks: what a chapter's `checks` gives. Where computing one of them raises an error, the table
    ends with it, and the run goes on. Raises `ResultError` where there is no check at all.
    """
    gathered = []
    asked = iter(checks)
    while True:
        try:
            gathered.append(next(asked))
        except StopIteration:
            break
        except RAISED as error:
            before = f"what follows ‘{gathered[-1].words}’" if gathered else "the first sentence"
            gathered.append(Check(before, in_words(error), holds=False))
            break
    if not gathered:
        raise ResultError("a page that checks nothing has no table: its checks are empty.")
    return CheckTable(tuple(gathered))


def recorded(notebook: Mapping[str, Any]) -> Iterator[Check]:
    """The checked sentences that an executed notebook has in its outputs, in order."""
    for about in described(notebook):
        yield from (Check(**check) for check in about.get("checks", ()))


def described(notebook: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the outputs of an executed notebook say about themselves, in order."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if about := output.get("metadata", {}).get(METADATA):
                yield about
