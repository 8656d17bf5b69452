"""How a page shows what its cells give: true minus signs in tables, and what folded code makes.

Every table of the site passes here, whoever made it: pandas, a chapter, the ledger or Markdown.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

#: A hyphen before a number where no letter, digit or bracket stands before it (GPT-2, 2026-11-28,
#: 3-5), or in its exponent.
_MINUS = re.compile(r"(?<![\w.)\]%-])-(?=\.?\d)|(?<=\de)-(?=\d)")
_BETWEEN_TAGS = re.compile(r"(?<=>)[^<>]+(?=<)")
#: What is quoted, or read by a program.
_VERBATIM = (nodes.literal, nodes.literal_block, nodes.math, nodes.raw)
#: How MyST-NB calls folded code where its cell says nothing.
UNNAMED = "{type}"


def with_minus(text: str) -> str:
    """A text with the sign − where a hyphen stands for it.

    >>> with_minus("-0.3 [-0.5, 1e-05] of GPT-2, 2026-11-28, heads 3-5")
    '−0.3 [−0.5, 1e−05] of GPT-2, 2026-11-28, heads 3-5'
    """
    return _MINUS.sub("−", text)


def sign(_app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: put true minus signs into the cells of all tables."""
    for raw in doctree.findall(nodes.raw):
        shown = raw.astext()
        if raw.get("format") == "html" and "<table" in shown:
            signed = _BETWEEN_TAGS.sub(lambda match: with_minus(match[0]), shown)
            raw.replace_self(nodes.raw(signed, signed, **raw.attributes))
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            if not isinstance(text.parent, _VERBATIM):
                text.parent.replace(text, nodes.Text(with_minus(str(text))))


def name(_app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: say what folded code makes, where the chapter does not."""
    for cell in doctree.findall(nodes.container):
        if cell.get("hide_mode") == "input" and UNNAMED in cell.get("prompt_show", ""):
            called = f"Code of the {_made_by(cell)}"
            cell.update_all_atts({"prompt_show": called, "prompt_hide": called}, replace=True)


def _made_by(cell: nodes.container) -> str:
    if any(cell.findall(nodes.figure)):
        return "figure"
    raws = (raw.astext() for raw in cell.findall(nodes.raw))
    if any(cell.findall(nodes.table)) or any("<table" in shown for shown in raws):
        return "table"
    return "picture" if any(cell.findall(nodes.image)) else "output"


def setup(app: Sphinx) -> None:
    """Register the events above: when sentences are checked, which are looked for as written."""
    app.connect("doctree-read", name, priority=700)
    app.connect("doctree-read", sign, priority=700)
