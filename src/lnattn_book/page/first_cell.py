"""What may stand in a page's first cell, said in one sentence before anything is computed."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lnattn.errors import LnattnError, did_you_mean, one_line
from lnattn_book.page.places import repository

#: A text of more tokens is cut: figures of so many keys cannot be read, and cost grows as a square.
MOST_TOKENS = 128
#: Attention needs a query and a key before it.
FEWEST_TOKENS = 2
#: Characters of a text without a tokenizer, and of one before it is read as tokens.
_MOST_CHARACTERS = 20 * MOST_TOKENS
#: Names that a sentence lists.
_LISTED = 12


class FirstCellError(LnattnError, ValueError):
    """A first cell holds what the page cannot mean; a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def refuse(name: str, value: Any, problem: str) -> FirstCellError:
    """The error that says what is wrong with a value of the first cell."""
    shown = one_line(repr(value), 80)
    end = "" if problem.endswith("?") else "."
    return FirstCellError(f"{name} = {shown}: {problem}{end} Change it in this page's first cell.")


# ---- Values --------------------------------------------------------------------------------------


def check(name: str, value: Any, allowed: range | type[str] | Collection[Any]) -> None:
    """Raise `FirstCellError` where a value is none of those that are allowed.

    allowed: a range of whole numbers; `str` for any words; or the values themselves.

    >>> check("HEAD", 3, range(8))
    >>> check("HEAD", -1, range(8))
    Traceback (most recent call last):
    lnattn_book.page.first_cell.FirstCellError: HEAD = -1: it must be a whole number from 0 to 7. \
Change it in this page's first cell.
    """
    if isinstance(allowed, range):
        if not _is_whole(value) or operator.index(value) not in allowed:
            raise refuse(name, value, f"it must be {_span(allowed)}")
    elif allowed is str:
        if not isinstance(value, str) or not value.strip():
            raise refuse(name, value, "it must be words between quotation marks")
    elif isinstance(allowed, Collection) and not _is_one_of(value, allowed):
        raise refuse(
            name, value, f"it must be one of {_listed(allowed)}{did_you_mean(value, allowed)}"
        )


def check_places(name: str, values: Any, places: range, count: int = 2) -> None:
    """Raise `FirstCellError` where values are not so many different places, in a list."""
    if (
        not isinstance(values, list | tuple)
        or not all(_is_whole(value) and value in places for value in values)
        or len(set(values)) != len(values)
        or len(values) != count
    ):
        asked = f"it must be a list of {count} different places of the text, each {_span(places)}"
        raise refuse(name, values, asked)


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_one_of(value: Any, allowed: Collection[Any]) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value in allowed


def _span(allowed: range) -> str:
    first = allowed[0]
    last = allowed[-1]
    return f"{first}, the only one" if first == last else f"a whole number from {first} to {last}"


def _listed(allowed: Collection[Any]) -> str:
    names = [*map(str, allowed)][:_LISTED]
    more = ", …" if len(allowed) > _LISTED else ""
    return ", ".join(names) + more


def read_given(model: Any, given: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The text of a first cell as long as the page can read it, if there is one, and notes of it.

    given: as for `page.start`. Raises `FirstCellError` for a value that may not stand there.
    """
    values = dict(given)
    text = None
    notes = []
    tokens = None
    if "text" in values:
        text, note = read_text(values.pop("text"), model)
        notes = [note] if note else []
        has_tokens = getattr(model, "tokenizer", None) is not None
        tokens = count_tokens(text, model) if has_tokens else None
    for name, value in values.items():
        _check_given(name, value, model, values.get("query"), tokens)
    return text, notes


def given(model: Any, **values: Any) -> str | None:
    """As the check of `page.start`, for values that stand further down on a page."""
    text, notes = read_given(model, values)
    print(*notes, sep="\n", end="\n" if notes else "")
    return text


def _check_given(name: str, value: Any, model: Any, query: Any, tokens: int | None) -> None:
    """Check one value; tokens: of the text, where there is one."""
    upper = name.upper()
    if name == "queries" and tokens is not None:
        check_places(upper, value, range(tokens))
    elif isinstance(value, tuple):
        check(upper, *value)
    elif name == "head":
        check(upper, value, range(len(model.attention.W_Q)))
    elif name == "query" and tokens is not None:
        check(upper, value, range(tokens))
    elif name == "key":
        check(upper, value, range(query + 1))  # a key stands at its query or before


# ---- Text ----------------------------------------------------------------------------------------


def read_text(text: Any, model: Any) -> tuple[str, str]:
    """A text as long as the page can read it, and a note where it was cut, or else ''.

    Raises `FirstCellError` for an empty text, and for one of a single token.
    """
    check("text", text, str)
    short = text[:_MOST_CHARACTERS]
    tokenizer: Any = getattr(model, "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False):
        return short, "" if short == text else f"The text is cut to its first {len(short)} letters."
    encoded = tokenizer(short, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    tokens = len(encoded["input_ids"])
    if tokens < FEWEST_TOKENS:
        problem = f"it has {tokens} token in {model.name}, and {FEWEST_TOKENS} are needed"
        raise refuse("text", text, problem)
    framing = count_tokens(short, model) - tokens
    room = min(tokens, MOST_TOKENS - framing, _context_of(model) - framing)
    if room == tokens and short == text:
        return text, ""
    cut = short[: encoded["offset_mapping"][room - 1][1]]
    return cut, f"The text is cut: this page reads its first {room} tokens in {model.name}."


def count_tokens(text: str, model: Any) -> int:
    """How many tokens a text has as the model reads it, those that frame it among them."""
    return len(model.tokenizer(text, verbose=False)["input_ids"])


def _context_of(model: Any) -> int:
    """How many tokens the model was trained to read; many where its positions have no end."""
    places = getattr(model.embeddings, "n_positions", None) or getattr(model, "context", None)
    return places or MOST_TOKENS


# ---- Model ---------------------------------------------------------------------------------------


def find_model(name: Any) -> str:
    """The name of a model as it is opened: a folder as one sees it from the clone's root is found.

    Raises `FirstCellError` for what is no name.
    """
    if not isinstance(name, str | Path) or not str(name).strip():
        problem = "it must be a name or a folder between quotation marks, or None"
        raise refuse("MODEL", name, problem)
    below_root = repository() / name
    if not Path(name).is_dir() and (below_root / "config.json").is_file():
        return str(below_root)
    return str(name)


def where_looked(name: str, problem: str) -> str:
    """The sentence of a model that cannot be had, and where in the clone its folder was looked for.

    problem: what the package says of it: no folder of that name is where the notebook runs.
    """
    root = repository()
    if Path(name).is_dir() or Path(name).is_absolute():
        return problem
    folders = [f"data/{path.parent.name}" for path in sorted((root / "data").glob("*/config.json"))]
    what, meant, which = problem.partition("; did you mean")
    near = did_you_mean(name, folders) or f"{meant}{which}"
    return f"{what.rstrip('.')}; and none in {root}{near}"
