"""What a build says on its terminal: its own lines, and the progress of its chapters' long jobs.

Chapters run in kernels, whose output becomes part of the pages. They append the state of a long
job to a file instead (`lnattn.progress`), and the build shows what comes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Seconds between two looks at the file.
_PACE = 0.3


def say(text: str) -> None:
    """One line of the build's own progress, told apart from Sphinx's."""
    print(f"[book] {text}", flush=True)


@contextmanager
def progress_shown(path: Path) -> Iterator[None]:
    """Inside, lines that any process appends to the file `path` are shown; it starts empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    finished = threading.Event()

    def follow() -> None:
        with path.open(encoding="utf-8", errors="replace") as file:
            last = False
            while not last:
                last = finished.wait(_PACE)  # one more look after the end
                for line in file:
                    say(line.rstrip("\n"))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
