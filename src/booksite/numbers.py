"""Columns of numbers are set to the right, whoever made the table.

A table that pandas has styled, or that a cell has printed, does not say which of its columns hold
numbers; a reader compares digits only where they stand below one another. So each column whose
cells are all numbers gets a class, head and body; the style sheet does the rest.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx

CLASS = "number"
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_AMOUNT = r"[<>≤≥≈~±]?\s*[-−–+]?\d[\d,. ]*(?:e[-−+]?\d+)?\s*(?:[%×°]|[a-zµ]{1,3}|MiB|GiB|MB)?"
_NUMBER = re.compile(rf"\(?{_AMOUNT}(?:\s*(?:±|–|to|…|,)\s*{_AMOUNT})?\)?")
#: What says that there is no number.
_NONE = {"", "–", "—", "-", "nan", "NaN", "None"}


def is_number(text: str) -> bool:
    """Whether a cell's text is a number, with its unit, or a range of numbers."""
    return _NUMBER.fullmatch(text.strip()) is not None


def aligned(body: str) -> str:
    """A page's HTML with the class on the cells of all columns of numbers."""
    return _TABLE.sub(lambda match: _table(match[0]), body)


def _table(text: str) -> str:
    soup = BeautifulSoup(text, "html.parser")
    rows = [row.find_all(["th", "td"], recursive=False) for row in soup.find_all("tr")]
    placed = _grid(rows)
    if placed is None or soup.select_one("table table"):
        return text  # no grid, so there are no columns
    body = [row for row in placed if any(cell.name == "td" for cell in row.values())]
    changed = False
    for column in range(max((max(row, default=0) for row in placed), default=0) + 1):
        cells = [row[column] for row in body if column in row and row[column].name == "td"]
        said = {cell.get_text().strip() for cell in cells} - _NONE
        if said and all(map(is_number, said)):
            for row in placed:
                if column in row and _span(row[column]) == 1:
                    cell = row[column]
                    cell["class"] = [*cell.get("class", []), CLASS]
                    changed = True
    return str(soup) if changed else text


def _span(cell: Tag, which: str = "colspan") -> int:
    return int(cell.get(which, 1))


def _grid(rows: list[list[Tag]]) -> list[dict[int, Tag]] | None:
    """The cells of each row by the column in which they begin; None where rows differ in width.

    A cell that spans rows stands in the first of them, and keeps its columns in the others.
    """
    placed, widths = [], set()
    taken: dict[int, int] = {}  # column: in how many rows to come a cell from above stands in it
    for row in rows:
        found, column, below = {}, 0, {c: n - 1 for c, n in taken.items() if n > 1}
        for cell in row:
            while column in taken:
                column += 1
            found[column] = cell
            for _ in range(_span(cell)):
                if _span(cell, "rowspan") > 1:
                    below[column] = _span(cell, "rowspan") - 1
                column += 1
        widths.add(max(column, max(taken, default=-1) + 1))
        placed.append(found)
        taken = below
    return placed if len(widths) == 1 else None


def align(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Sphinx's event `html-page-context`."""
    if "<table" in (context.get("body") or ""):
        context["body"] = aligned(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", align)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
