"""An idea a line, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Where all Python of the project lies, tests aside.
TREES = ("src/lnattn", "src/lnattn_book", "src/booksite", "experiments", "tools", "benchmarks")
ROOT = Path(__file__).parents[1]


def packed(tree: ast.AST) -> Iterator[int]:
    """Lines that bind several names to as many expressions: a, b = f(x), g(y). Swaps are fine."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        if all(ast.unparse(name).lstrip("_").isupper() for name in node.targets[0].elts):
            continue  # constants that belong together
        if isinstance(node.value, ast.GeneratorExp | ast.ListComp):
            yield node.lineno
        elif isinstance(node.value, ast.Tuple):
            names = {ast.unparse(name) for name in node.targets[0].elts}
            if names != {ast.unparse(value) for value in node.value.elts}:
                yield node.lineno


def test_packed_lines_are_told_from_swaps() -> None:
    lines = ["a, b = b, a", "a, b = f(x)", "a, b = 1, 2", "a, b = (f(x) for x in y)", "a = b, c"]
    lines += ["FEW, MANY = 1, 9"]
    assert list(packed(ast.parse("\n".join(lines)))) == [3, 4]


@pytest.mark.parametrize("tree", TREES)
def test_a_line_binds_one_idea(tree: str) -> None:
    files = sorted((ROOT / tree).rglob("*.py"))
    assert files
    for file in files:
        lines = list(packed(ast.parse(file.read_text(encoding="utf-8"))))
        assert not lines, f"{file} binds several ideas in lines {lines}; give each its own"
