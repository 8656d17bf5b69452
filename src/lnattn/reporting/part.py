"""What a part of a report is: sentences, figures, tables, and all its numbers."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

#: How a negative number prints that rounds to zero.
_MINUS_ZERO = re.compile(r"-[0.]+%?")


@dataclass(frozen=True)
class Figure:
    """A drawing as HTML (an SVG, or a table that is coloured), and what it shows."""

    drawing: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows for reading. title: over them; formats: column → format specification.

    A column without a format is shown as its values print; a number that rounds to zero has no
    sign.
    """

    title: str
    rows: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """The table with its title, numbers right-aligned; the index is the first column."""
        rows = self.rows
        first = html.escape(str(rows.index.name or ""))
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows.columns)
        body = []
        for label, row in zip(rows.index, rows.itertuples(index=False), strict=True):
            cells = [
                _cell(value, self.formats.get(str(name), ""))
                for name, value in zip(rows.columns, row, strict=True)
            ]
            body.append(f"<tr><th>{html.escape(str(label))}</th>{''.join(cells)}</tr>")
        return (
            f'<div class="lr-scroll" tabindex="0" role="region" aria-label='
            f'"{html.escape(self.title)}"><table><caption>{html.escape(self.title)}</caption>'
            f"<thead><tr><th>{first}</th>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
            "</table></div>"
        )


@dataclass(frozen=True, repr=False)
class Part:
    """One part of a report.

    name: as --only calls it; title; sentences: what was found, or, of a part without its data, the
    one sentence that says what is missing; is_lost: whether that is no lack of the model's, but
    something that could not be read; numbers: everything that figures and tables show, as
    plain values or arrays.
    """

    name: str
    title: str
    sentences: Sequence[str]
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    is_missing: bool = False
    is_lost: bool = False
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<Part {self.name}: {' '.join(self.sentences)}>"

    def html(self, level: int = 2, model: str = "") -> str:
        """The part as a section of a page, under a heading of that level.

        model: whose part it is, where the page does not say so.
        """
        title = html.escape(f"{model}: {self.title}" if model else self.title)
        sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        figures = "".join(
            f"<figure>{figure.drawing}<figcaption>{html.escape(figure.caption)}</figcaption></figure>"
            for figure in self.figures
        )
        tables = "".join(table.html() for table in self.tables)
        if tables and self.figures:
            tables = f"<details><summary>Numbers</summary>{tables}</details>"
        state = " lr-missing" if self.is_missing else ""
        return (
            f'<section class="lr-part{state}"><h{level}>{title}</h{level}>'
            f"{sentences}{figures}{tables}</section>"
        )

    def record(self) -> dict[str, Any]:
        """The part as JSON holds it."""
        record: dict[str, Any] = {"title": self.title}
        if self.is_missing:
            return {**record, "missing": " ".join(self.sentences)}
        return {
            **record,
            "sentences": list(self.sentences),
            "numbers": plain(self.numbers),
            "tables": [{"title": table.title, "rows": plain(table.rows)} for table in self.tables],
            "seconds": round(self.seconds, 2),
        }


def plain(value: Any) -> Any:
    """What JSON can hold: arrays and tables as lists, what is not finite as None."""
    if isinstance(value, pd.DataFrame):
        return [
            {str(name): plain(item) for name, item in row.items()}
            for row in value.reset_index().to_dict("records")
        ]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is pd.NA or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return None
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def _cell(value: Any, spec: str) -> str:
    missing = value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
    text = "–" if missing else format(value, spec) if spec else str(value)
    if not isinstance(value, str) and _MINUS_ZERO.fullmatch(text):
        text = text.removeprefix("-")
    kind = "" if isinstance(value, str) else ' class="lr-number"'
    return f"<td{kind}>{html.escape(text)}</td>"
