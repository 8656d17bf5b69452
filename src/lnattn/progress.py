"""Progress of long jobs: on the terminal, and never in what a program prints.

Where LNATTN_PROGRESS names a file, it is appended there: whoever started this process may show it
on a terminal of his own.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm.std import tqdm

#: Jobs that are done sooner show nothing (seconds).
DELAY = 2.0
#: Between two states of a bar where they all stay: in the build's file, in a log (seconds).
_BETWEEN_LINES = 10.0


def progress_bar(items: Iterable[Any] | None = None, what: str = "", **options: Any) -> tqdm:
    """A bar of tqdm over `items`, or, without them, over `total=` steps that `update` counts.

    what: the job, a few words; options: tqdm's own (`total`, `unit`, `disable` …).
    """
    stream = _stream()
    pace = {} if stream.isatty() else {"mininterval": _BETWEEN_LINES, "ascii": True}
    given = {"desc": what, "file": stream, "delay": DELAY, "leave": False, **pace, **options}
    return tqdm(items, **given)


def say(text: str) -> None:
    """One line about what happens, where bars are shown."""
    print(f"[lnattn] {text}", file=_stream(), flush=True)


def _stream() -> Any:
    path = os.environ.get("LNATTN_PROGRESS")
    return _Lines(path) if path else sys.stderr


class _Lines(io.TextIOBase):
    """Appends each state of a bar to a file as a line of its own."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write(self, text: str) -> int:
        line = text.strip("\r\n ")
        if line:
            # Opened anew and written at once, so that lines of several processes do not mix.
            with self._path.open("ab", buffering=0) as file:
                file.write(f"{line}\n".encode())
        return len(text)
