"""What a sentence of a page claims, asked of the numbers beside it.

A guard never stops a reader. Where he changed the chapter or its model, a sentence that no longer
fits is named in one line, with what was found and what was asked, and the run goes on. A build of
the book sets `LNATTN_GUARDS=record`: then every guard leaves its data in the chapter's outputs,
under the type `MIME`, and `booksite.guards` makes a warning of those that do not hold, and a mark
at the sentence of all.
"""

from __future__ import annotations

import ast
import html
import inspect
import linecache
import numbers
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import numpy as np
from IPython.display import display

from lnattn.errors import LnattnError

#: The type of a guard's data among a cell's outputs.
MIME = "application/vnd.lnattn.guard+json"
#: The environment variable that a build of the book sets to 'record'.
RECORDING = "LNATTN_GUARDS"
#: What stands under `found` where a condition is None: the model has not what it asks about.
NOT_ASKED = "not asked of this model"
#: The functions in whose calls a condition is the second argument.
CALLED = ("holds", "ask")
#: Numbers of a sequence up to which each of them is shown; of more, the least and the largest.
_SHOWN = 6


@dataclass(frozen=True)
class Guard:
    """A sentence of the page and what came of it.

    sentence: the words of the page that are checked, from which the mark at them hangs.
    asked: the condition, as it stands in the code. found: the values in it, in words.
    holds: whether it is so; None where there is nothing to ask; False after an error, too.
    """

    sentence: str
    asked: str
    found: str
    holds: bool | None

    @property
    def message(self) -> str:
        """One line for a reader whose chapter or model is another."""
        of_whom = f"The page says ‘{self.sentence}’ of the unchanged chapter"
        if self.holds is None:
            return f"{of_whom}; that is {self.found}."
        needed = f", and needs {self.asked}" if self.asked else ""
        return f"{of_whom}; here it finds {self.found or 'it otherwise'}{needed}."

    def show(self) -> None:
        """Say it where it does not hold; leave the data where a build records."""
        if not self.holds or os.environ.get(RECORDING) == "record":
            display(Shown(self, "" if self.holds else self.message))


@dataclass(frozen=True)
class Shown:
    """A guard as an output of a cell: its data, and words for a reader if he is to see any."""

    guard: Guard
    message: str

    def __repr__(self) -> str:
        return self.message

    def _repr_mimebundle_(self, **_kinds: Any) -> dict[str, Any]:
        # MyST-NB warns of a type that it cannot show, in cells that a page shows. What a reader's
        # model lacks is shown there, and is no guard's affair; guards stand in removed cells.
        data: dict[str, Any] = {} if self.guard.holds is None else {MIME: asdict(self.guard)}
        if self.message:
            data["text/plain"] = self.message
            data["text/html"] = f'<p class="lnattn-guard">{html.escape(self.message)}</p>'
        return data


def holds(sentence: str, condition: Any) -> None:
    """Ask of the numbers what a sentence of the page says, in a hidden cell beside it.

    sentence: the words of the page, as they stand there. condition: one truth value; None where
    the reader's model has nothing to ask; or a function without arguments that gives either, in
    which an error stays. Never raises: where the sentence does not hold, one line says so, with
    what was found and what was asked, and the run goes on. A build of the book makes a warning of
    it (see `booksite.guards`).
    """
    ask(sentence, condition, inspect.currentframe()).show()


def ask(sentence: str, condition: Any, frame: FrameType | None = None) -> Guard:
    """The guard of a sentence; raises nothing, whatever the condition does.

    condition: one truth value, None where there is nothing to ask, or a function without arguments
    that gives one of these: it is called here, so that an error in it stays here.
    frame: that of the asking function, above which the condition and the values in it are read.
    """
    expression, frame = _condition(frame.f_back if frame else None)
    asked = "" if expression is None else ast.unparse(expression)
    try:
        value = condition() if callable(condition) else condition
        holds = None if value is None else bool(value)
    except Exception as error:  # whatever a reader's model lacks
        return Guard(sentence, asked, _in_words(error), False)
    if holds is None:
        return Guard(sentence, asked, NOT_ASKED, None)
    values = "" if expression is None else ", ".join(_values(expression, frame))
    return Guard(sentence, asked, values, holds)


def read(notebook: Mapping[str, Any]) -> Iterator[Guard]:
    """The guards that an executed notebook recorded, in order."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if data := output.get("data", {}).get(MIME):
                yield Guard(**data)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """A block about the reader's model: an error ends the block, and not the chapter.

    what: what the block asks about, as one says it. What the model lacks (a `LnattnError`, whose
    sentence gives the reason) is shown, and no fault; any other error is shown, too, and is a
    warning of a build.

    >>> with asking("the heads of a second layer"):
    ...     raise LnattnError("tiny has one layer.")
    The heads of a second layer cannot be asked of this model: tiny has one layer.
    """
    try:
        yield
    except Exception as error:
        lacking = isinstance(error, LnattnError)
        reason = str(error).strip() if lacking else f"{_in_words(error)}."
        message = f"{what[:1].upper()}{what[1:]} cannot be asked of this model: {reason}"
        guard = Guard(what, "", reason, None if lacking else False)
        display(Shown(guard, message))


# ---- The condition, as it stands in the code ---------------------------------------------------


def _condition(frame: FrameType | None) -> tuple[ast.expr | None, FrameType | None]:
    """The second argument of the call that is running, and the frame in which its names mean it.

    frame: where to begin to look for the call, upwards.
    """
    while frame is not None:
        call = _running_call(frame)
        if call is not None and len(call.args) > 1 and ast.unparse(call.func).endswith(CALLED):
            condition = call.args[1]
            return (condition.body if isinstance(condition, ast.Lambda) else condition), frame
        frame = frame.f_back
    return None, None


def _running_call(frame: FrameType) -> ast.Call | None:
    """The call that a frame waits for, as it stands in the source; None where that is not known."""
    positions = inspect.getframeinfo(frame, context=1).positions
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if positions is None or positions.lineno is None or len(lines) < (positions.end_lineno or 0):
        return None
    segment = [line.encode() for line in lines[positions.lineno - 1 : positions.end_lineno]]
    segment[-1] = segment[-1][: positions.end_col_offset]
    segment[0] = segment[0][positions.col_offset :]
    try:
        call = ast.parse(b"".join(segment).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return call if isinstance(call, ast.Call) else None


def _values(expression: ast.expr, frame: FrameType | None) -> Iterator[str]:
    """What the compared parts of a condition are, as 'part = value', each once."""
    names = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    shown = set()
    for part in _compared(expression):
        text = ast.unparse(part)
        if text in shown:
            continue
        shown.add(text)
        evaluated = ast.fix_missing_locations(ast.Expression(part))
        try:
            value = _as_text(eval(compile(evaluated, "<guard>", "eval"), names))
        except Exception as error:  # a reader's names may be anything; he is told what became of it
            yield f"{text} cannot be had again ({type(error).__name__})"
            continue
        if value:
            label = ast.unparse(part.elt) if isinstance(part, ast.ListComp) else text
            yield f"{label} = {value}"


def _compared(expression: ast.expr) -> Iterator[ast.expr]:
    """The two sides of each comparison in a condition; within all(…) and any(…), of each turn."""
    match expression:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _compared(part)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            yield from _compared(left)
            yield from _compared(right)
        case ast.UnaryOp(operand=part):
            yield from _compared(part)
        case ast.Compare(left=left, comparators=others):
            yield from filter(_has_names, (left, *others))
        case ast.IfExp(body=part):
            yield from _compared(part)
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp() as each]):
            for part in _compared(each.elt):
                yield ast.ListComp(part, each.generators)
        case ast.Call(func=ast.Attribute(value=part, attr="all" | "any")):
            yield from _compared(part)


def _has_names(part: ast.expr) -> bool:
    """Whether it is anything but a number that is written there."""
    return any(isinstance(node, ast.Name) for node in ast.walk(part))


def _as_text(value: Any) -> str:
    """A value in a few characters; '' where there is no short way to say it."""
    if hasattr(value, "detach"):  # a tensor; builds read guards without PyTorch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_ | str):
        return repr(value.item() if isinstance(value, np.bool_) else value)
    if isinstance(value, numbers.Integral):
        return f"{value:,d}"
    if isinstance(value, numbers.Real):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray | list | tuple | set | frozenset):
        return _sequence(value)
    return ""


def _sequence(values: Any) -> str:
    flat = list(values.flat) if isinstance(values, np.ndarray) else list(values)
    texts = [_as_text(value) for value in flat]
    if not texts or not all(texts):
        return ""
    if len(texts) <= _SHOWN:
        return ", ".join(texts)
    if any(isinstance(value, str) for value in flat):
        return ""
    return f"{len(flat)} values from {_as_text(min(flat))} to {_as_text(max(flat))}"


def _in_words(error: Exception) -> str:
    """An error as one line: its kind and the first line of what it says."""
    says = str(error).strip().splitlines()
    return f"{type(error).__name__}: {says[0]}".rstrip(".") if says else type(error).__name__
