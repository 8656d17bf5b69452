"""Chapters judge by the rules of the claims alone, and refer to every figure."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import pytest
import yaml

from lnattn_book.page import places

ROOT = places.repository()
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.md"))
CHAPTERS = [path for path in NOTEBOOKS if path.name[0].isdigit()]
PAGES = [*NOTEBOOKS, *sorted((ROOT / "book").glob("*.md"))]

_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Comparisons of a chapter with a number that only describe what they count, in words beside it.
#: What decides about a claim stands in `book/claims.yml`, and nowhere else.
DESCRIBING = {
    # Where a walk in float64 has come as near as it can.
    "09-unselectable-keys": {"step @ query <= 1e-12", "np.linalg.norm(queries, axis=1) > 1e-05"},
}


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook: its code, and the label of the figure that it draws."""

    code: str
    figure: str | None


def cells(text: str) -> list[Cell]:
    """The code cells of a MyST notebook, without their metadata."""
    found = []
    for body in _CELL.findall(text):
        metadata = {}
        if body.startswith("---\n"):
            head, _, body = body[4:].partition("---\n")
            metadata = yaml.safe_load(head)
        body = re.sub(r"\A(:\w+: [^\n]*\n)*", "", body)
        figure = metadata.get("mystnb", {}).get("figure", {}).get("name")
        found.append(Cell(body, figure))
    return found


def figures(text: str) -> list[str]:
    """Labels of the figures of a page, those that code makes and those that it does not."""
    made = [cell.figure for cell in cells(text) if cell.figure]
    return made + re.findall(r"^:name: (fig-\S+)$", text, re.MULTILINE)


def thresholds(code: str) -> set[str]:
    """Comparisons of size with a number other than 0 and 1, outside of assertions."""
    tree, found = ast.parse(code), set()
    assertions = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    asserted = {id(node) for assertion in assertions for node in ast.walk(assertion)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or id(node) in asserted:
            continue
        sized = any(isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in node.ops)
        sides = [getattr(side, "operand", side) for side in (node.left, *node.comparators)]
        values = {side.value for side in sides if isinstance(side, ast.Constant)}
        if sized and any(isinstance(value, int | float) for value in values - {0, 1}):
            found.add(ast.unparse(node))
    return found


def name(path) -> str:
    return path.stem


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_a_chapter_judges_by_rules_alone(path):
    """No threshold of its own, and no verdict that a rule has not given."""
    code = "\n".join(cell.code for cell in cells(path.read_text(encoding="utf-8")))
    assert thresholds(code) == DESCRIBING.get(path.stem, set())
    assert not re.search(r"\bRecord\(", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_every_figure_is_referred_to(path):
    text = path.read_text(encoding="utf-8")
    unmentioned = [label for label in figures(text) if f"{{numref}}`{label}`" not in text]
    assert unmentioned == []


def test_no_two_figures_have_one_label():
    labels = [label for path in PAGES for label in figures(path.read_text(encoding="utf-8"))]
    assert len(labels) == len(set(labels))
