"""A block about the reader's model, which may lack what the block asks about."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from IPython.display import display

from lnattn.errors import LnattnError
from lnattn_book.page.checks import METADATA, RAISED, in_words


@dataclass(frozen=True)
class NotAsked:
    """Why a block ended, as an output of its cell; is_fault: for no lack of the model."""

    message: str
    is_fault: bool

    def __repr__(self) -> str:
        return self.message

    def _repr_mimebundle_(self, **_kinds: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """What a reader is shown, and of a fault the same for a build, as the output's metadata."""
        shown = f'<p class="not-asked">{html.escape(self.message)}</p>'
        about = {METADATA: {"fault": self.message}} if self.is_fault else {}
        return {"text/plain": self.message, "text/html": shown}, about


@contextmanager
def asking(what: str) -> Iterator[None]:
    """A block about the reader's model: an error ends the block, and not the chapter.

    what: what the block asks about, as one says it. What the model lacks (a `LnattnError`, whose
    sentence gives the reason) is shown, and no fault; another error in computing with its numbers
    is shown, too, and is a warning of a build.

    >>> with asking("the heads of a second layer"):
    ...     raise LnattnError("tiny has one layer.")
    The heads of a second layer cannot be asked of this model: tiny has one layer.
    """
    try:
        yield
    except RAISED as error:
        lacks = isinstance(error, LnattnError)
        reason = str(error).strip() if lacks else f"{in_words(error)}."
        message = f"{what[:1].upper()}{what[1:]} cannot be asked of this model: {reason}"
        display(NotAsked(message, is_fault=not lacks))
