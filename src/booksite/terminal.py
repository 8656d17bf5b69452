"""What a build says on its terminal: its own lines, and the progress of its chapters' long jobs.

Chapters run in kernels, whose output becomes part of the pages. They append the state of a long
job to a file instead (`lnattn.progress`), and the build shows what comes.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

#: Seconds between two looks at the file.
_PACE = 0.3


def say(text: str) -> None:
    """One line of the build's own progress, told apart from Sphinx's.

    What the terminal cannot write, such as an é in a path on an ASCII one, becomes a '?'.
    """
    _write(text, sys.stdout)


def _write(text: str, stream: Any) -> None:
    encoding = stream.encoding or "ascii"
    shown = f"[book] {text}".encode(encoding, "replace").decode(encoding)
    print(shown, file=stream, flush=True)


def end(problem: str, status: int = 2) -> NoReturn:
    """End the build with one sentence on what the user can mend, in place of a traceback."""
    _write(problem, sys.stderr)
    raise SystemExit(status)


class Following:
    """Shows the lines that any process appends to a file, which starts empty, until it is stopped.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "progress.log")
    >>> with Following(file):
    ...     _ = file.open("a").write("heads: 50%\\n")
    [book] heads: 50%
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        self._path = path
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with self._path.open(encoding="utf-8", errors="replace") as file:
            last = False
            while not last:
                last = self._finished.wait(_PACE)  # one more look after the end
                for line in file:
                    say(line.rstrip("\n"))

    def stop(self) -> None:
        """Show what is left, and no more."""
        self._finished.set()
        self._thread.join()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
