"""Repairs to the markup that other tools write, where assistive technology would stumble.

Docutils makes a bibliography a list whose entries are no list items: each has a role of its own,
`doc-biblioentry`, which a list may not hold. Sphinx writes a signature of many parameters as a list
of definitions without any term. In both cases the role of a list is taken away. pandas writes the
names of an index into a second row of heads, and leaves cells of both empty: one row holds all.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup
from sphinx.application import Sphinx

_BIBLIOGRAPHY = '<div role="list" class="citation-list">'
_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)


def repaired(body: str) -> str:
    """The HTML of a page, its roles put right."""
    body = body.replace(_BIBLIOGRAPHY, _BIBLIOGRAPHY.replace(' role="list"', ""))
    return _HEAD.sub(_in_one_row, _SIGNATURE.sub(_without_list, body))


def _without_list(signature: re.Match[str]) -> str:
    text = signature[0]
    for tag in ("dl", "dd"):
        text = text.replace(f"<{tag}>", f'<{tag} role="none">')
    return text


def _in_one_row(head: re.Match[str]) -> str:
    soup = BeautifulSoup(head[0], "html.parser")
    if len(rows := soup("tr")) == 2:
        pairs = list(zip(rows[0]("th"), rows[1]("th"), strict=False))
        if not any(upper.text.strip() and other.text.strip() for upper, other in pairs):
            for upper, other in pairs:
                if other.text.strip():
                    upper.replace_with(other)
            rows[1].decompose()
    for cell in soup("th"):
        if not cell.text.strip():
            cell.name = "td"
    return str(soup)


def repair(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], *_: Any) -> None:
    """Sphinx's event `html-page-context`: changes the page's body."""
    if "body" in context:
        context["body"] = repaired(context["body"])


def setup(app: Sphinx) -> None:
    """Register the event above."""
    app.connect("html-page-context", repair)
