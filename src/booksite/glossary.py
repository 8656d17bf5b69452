"""Symbols in the text say what they mean: `book/glossary.yml` put on the formulas that are one.

A formula within a line that is a symbol of the glossary gets a note, which `assets/reading.js`
shows where the pointer or the focus is; without the script it is the formula alone. The page that
defines the symbols, headings and links have none.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx

from lnattn.errors import ResultError
from lnattn.reporting.words import TERM_NAMES

FILE = Path("book", "glossary.yml")
#: Where symbols are defined, and need no note.
DEFINING = "book/notation"


def plain(tex: str) -> str:
    """TeX without spaces, nor braces around one sign."""
    return re.sub(r"\{(\w)\}", r"\1", "".join(tex.split()))


@cache
def glossary(path: Path) -> dict[str, str]:
    """TeX of a symbol, made `plain`, → its note, with formulas between \\( and \\).

    Raises `ResultError` for a symbol that stands there twice, or a term that is none.
    """
    notes: dict[str, str] = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        term = entry.get("term")
        if term is not None and term not in TERM_NAMES:
            raise ResultError(
                f"{path}: there is no term {term!r}; there are {', '.join(TERM_NAMES)}."
            )
        words = re.sub(r"\$([^$]*)\$", r"\\(\1\\)", entry["words"])
        note = f"{TERM_NAMES[term]}: {words}" if term else words
        for tex in map(plain, entry["tex"]):
            if tex in notes:
                raise ResultError(f"{path}: {tex} has two notes; take one of them out.")
            notes[tex] = note
    return notes


def annotate(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: put the notes on a page's symbols."""
    path = Path(app.srcdir) / FILE
    if app.builder.format != "html" or page == DEFINING or not path.is_file():
        return
    notes = glossary(path)
    for symbol in list(doctree.findall(nodes.math)):
        note = notes.get(plain(symbol.astext()))
        if note is None or _within(symbol, nodes.title | nodes.reference):
            continue
        start = f'<span class="symbol" data-note="{html.escape(note)}">'
        wrapped = (nodes.raw("", start, format="html"), symbol.deepcopy())
        symbol.parent.replace(symbol, [*wrapped, nodes.raw("", "</span>", format="html")])


def _within(node: nodes.Node, kinds: Any) -> bool:
    above = node.parent
    while above is not None and not isinstance(above, kinds):
        above = above.parent
    return above is not None


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", annotate)
