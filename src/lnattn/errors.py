"""The errors that lnattn raises for bad input: one clear sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Characters of a foreign message, or of a value, that a sentence shows.
SHOWN = 300


class LnattnError(Exception):
    """Base class: catch this to catch every error that lnattn raises on purpose.

    >>> import lnattn
    >>> try:
    ...     lnattn.load_first_layer("no/such folder")
    ... except LnattnError as error:
    ...     print(type(error).__name__)
    CheckpointError
    """


class CheckpointError(LnattnError, ValueError):
    """A checkpoint is missing, damaged, not supported, or holds unusable weights."""


class HubError(CheckpointError):
    """The Hugging Face hub could not be reached, or refused, and nothing is cached."""


class ShapeError(LnattnError, ValueError):
    """A tensor's shape, dtype or finiteness contradicts what the formula needs."""


class TermError(LnattnError, KeyError):
    """A name is none of a score's terms."""

    #: The sentence as it is; a KeyError would show its repr.
    __str__ = Exception.__str__


class TokenError(LnattnError, ValueError):
    """A token id or a position lies outside what the model was trained for."""


class CorpusError(LnattnError, ValueError):
    """A corpus is missing, empty, damaged, or changed since it was last read."""


class ResultError(LnattnError, ValueError):
    """A frozen result is missing, damaged, or was made by something else."""


def capitalised(words: str) -> str:
    """With a capital at the beginning, and the rest as it is; a name keeps its letters.

    A first word of other signs than small letters, such as a file's or a model's, is a name.

    >>> capitalised("GPT-2 has one"), capitalised("it has none"), capitalised("a.txt is gone")
    ('GPT-2 has one', 'It has none', 'a.txt is gone')
    """
    first = words.partition(" ")[0].rstrip(",:;.")
    return words[:1].upper() + words[1:] if first.isalpha() else words


def one_line(message: object, length: int = SHOWN) -> str:
    r"""A foreign message or a value in one line, cut in its middle to `length` characters.

    The end is kept because it often says what was wrong.

    >>> one_line("a first line\n    and a second")
    'a first line and a second'
    >>> one_line("x" * 1000, length=9)
    'xxxx…xxxx'
    """
    said = str(message).partition("Exception raised from ")[0]  # torch adds its stack in C++
    line = " ".join(said.split())
    if len(line) <= length:
        return line
    half = (length - 1) // 2
    return f"{line[:half]}…{line[-half:]}"


def did_you_mean(value: object, names: Iterable[object]) -> str:
    """'; did you mean …?' where a name is near one of those that there are, else ''.

    >>> did_you_mean("GPT2", ["gpt2", "minilm"])
    "; did you mean 'gpt2'?"
    """
    by_small_letters = {str(name).casefold(): str(name) for name in names}
    near = get_close_matches(str(value).casefold(), by_small_letters, n=1, cutoff=0.75)
    return f"; did you mean {by_small_letters[near[0]]!r}?" if near else ""
