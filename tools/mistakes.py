"""Mistakes of a person's kind, from a list: those that swapping operators does not make.

    python tools/mutants.py explorer          (make mutants MODULE=explorer)

`tests/mistakes.toml` has, under the name of a room, a table for each: `file`, the text `before`
that stands in it once, what stands there `after`, and the `tests` that must notice. Scripts of the
pages are among them, which cosmic-ray does not read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LISTED = Path(__file__).resolve().parents[1] / "tests" / "mistakes.toml"


@dataclass(frozen=True)
class Mistake:
    """One change of a file, and the test files that must notice it: 'stats,plain'."""

    file: str
    before: str
    after: str
    tests: str

    @property
    def text(self) -> str:
        """As it is printed, in a line."""
        return f"{self.file}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def changed(self, text: str) -> str:
        """The file with the mistake; a text that does not hold the place once is a stale list."""
        if text.count(self.before) != 1:
            raise SystemExit(
                f"tests/mistakes.toml: ‘{self.before}’ stands {text.count(self.before)} times in "
                f"{self.file}; give a text that stands there once."
            )
        return text.replace(self.before, self.after)

    @property
    def files(self) -> list[str]:
        """The test files by their paths, or single tests: 'browser_explorer::test_a_click'.

        Those of experiments begin with 'experiments/'.
        """
        return [_path(*name.partition("::")) for name in self.tests.split(",")]


def _path(name: str, *test: str) -> str:
    room, _, file = name.rpartition("/")
    folder = "experiments/tests" if room else "tests"
    return f"{folder}/test_{file}.py{''.join(test)}"


def listed(room: str) -> list[Mistake]:
    """The mistakes of a room; none where the list does not name it."""
    rooms = tomllib.loads(LISTED.read_text("utf-8"))
    return [Mistake(**mistake) for mistake in rooms.get(room, [])]


def tried(
    mistakes: Iterable[Mistake], root: Path, passes: Callable[[list[str]], bool]
) -> Iterator[tuple[Mistake, bool]]:
    """Each mistake, and whether its tests pass with it in the copy at `root`."""
    for mistake in mistakes:
        path = root / mistake.file
        whole = path.read_text("utf-8")
        try:
            path.write_text(mistake.changed(whole), "utf-8")
            yield mistake, passes(mistake.files)
        finally:
            path.write_text(whole, "utf-8")
