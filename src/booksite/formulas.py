"""Formulas that need no MathJax: letters, some of them raised or lowered.

A page all of whose formulas are of that kind has them as text and does without MathJax, which is
263 kB, compressed, more than all else that the page loads.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_PART = re.compile(
    r"\^(?P<raised>\w|\{[^{}]*\})|_(?P<lowered>\w|\{[^{}]*\})|\\sqrt\{(?P<root>\w'?)\}"
    r"|\\(?:operatorname|mathrm)\{(?P<name>\w+)\}|\\(?P<command>[A-Za-z]+)|(?P<letter>[A-Za-z]+)"
    r"|(?P<sign>\\,|[\d'/,()-])|(?P<space>\s+)"
)
_SIGNS = {"\\,": "\u202f", "'": "′", "-": "−", "Vert": "‖"}


def simple(tex: str) -> list[nodes.Node] | None:
    """The nodes of a formula, or None where text cannot set it."""
    made: list[nodes.Node] = []
    at = 0
    while at < len(tex):
        found = _PART.match(tex, at)
        node = _node(found.lastgroup or "", found[found.lastgroup or 0]) if found else None
        if found is None or node is None:
            return None
        made.append(node)
        at = found.end()
    return made


def _node(kind: str, text: str) -> nodes.Node | None:
    if kind in ("raised", "lowered"):
        inner = simple(text.strip("{}"))
        made = nodes.superscript if kind == "raised" else nodes.subscript
        return None if inner is None else made("", "", *inner)
    if kind == "root":
        return nodes.inline("", "", nodes.Text("√"), *(simple(text) or ()))
    if kind == "command" and text not in _SIGNS:
        size = "SMALL" if text.islower() else "CAPITAL"
        try:
            letter = unicodedata.lookup(f"GREEK {size} LETTER {text.upper()}")
        except KeyError:
            return None
        return nodes.emphasis("", letter) if size == "SMALL" else nodes.Text(letter)
    if kind == "letter":
        return nodes.emphasis("", text)
    return nodes.Text("" if kind == "space" else _SIGNS.get(text, text))


def set_as_text(app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Sphinx's event `doctree-resolved`, after all that add formulas or look for them."""
    formulas = list(doctree.findall(nodes.math))
    found = [simple(formula.astext()) for formula in formulas]
    if app.builder.format != "html" or None in found or any(doctree.findall(nodes.math_block)):
        return
    for formula, made in zip(formulas, found, strict=True):
        formula.replace_self(nodes.inline("", "", *(made or ()), classes=["formula"]))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", set_as_text, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
