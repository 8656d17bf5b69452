"""Repairs to the markup that other tools write, where assistive technology would stumble.

Docutils makes a bibliography a list whose entries are no list items: each has the role
`doc-biblioentry` of its own, which a list may not hold. Without the list's role all is well.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

_REPAIRS = {'<div role="list" class="citation-list">': '<div class="citation-list">'}


def repaired(body: str) -> str:
    """The HTML of a page, its roles put right."""
    for wrong, right in _REPAIRS.items():
        body = body.replace(wrong, right)
    return body


def repair(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], *_: Any) -> None:
    """Sphinx's event `html-page-context`: changes the page's body."""
    if "body" in context:
        context["body"] = repaired(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the event above."""
    app.connect("html-page-context", repair)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
