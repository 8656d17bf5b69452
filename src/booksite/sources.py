"""The source of a test, found by the name that pytest gives it.

Sphinx's `literalinclude` finds it too, but gives no line to link to; asked directly, its finder
takes four times as long for all claims, and is missing where tests run without Sphinx.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lnattn.errors import ResultError


@dataclass(frozen=True)
class Source:
    """A test function: its pytest name, its file, the line of its `def`, and its text."""

    name: str
    path: Path
    line: int
    text: str


def source_of(name: str, root: Path) -> Source:
    """The test `tests/FILE.py::test_NAME` below `root`; one that is missing is a `ResultError`."""
    file, _, function = name.partition("::")
    path = root / file
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ResultError(f"{name} is named in book/claims.yml, but {path} is missing.") from error
    node = _functions(text).get(function)
    if node is None:
        raise ResultError(f"{name} is named in book/claims.yml, but {path} has no such function.")
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    return Source(name, path, node.lineno, "\n".join(lines))


@cache
def _functions(text: str) -> dict[str, ast.FunctionDef]:
    """A file's functions by name; several claims name tests of one file."""
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
