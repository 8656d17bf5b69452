"""What builders other than `html` lack: how a page's parts are written in one file, or as text.

sphinx-exercise registers its parts for `singlehtml`; Sphinx then looks for all parts there, and
those that other extensions registered for HTML in general are unknown. A column of a table may be a
fraction wide, which the writer of plain text cannot draw.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.text import TextTranslator

_OF_THE_ROOT = re.compile(r'((?:src|href|data-src)=")(?=_(?:static|images|sources|downloads)/)')


def know_all_parts(app: Sphinx) -> None:
    """Sphinx's event `builder-inited`: what is registered for the format counts for the builder.

    Of a part that only HTML knows, plain text has what is in it.
    """
    handlers = app.registry.translation_handlers
    name = app.builder.name
    general = handlers.get(app.builder.format, {})
    if name in handlers and name != app.builder.format:
        handlers[name] = {**general, **handlers[name]}
    if app.builder.format == "text":
        unknown = [
            part
            for part in handlers.get("html", {})
            if not hasattr(TextTranslator, f"visit_{part}")
        ]
        handlers["text"] = {**dict.fromkeys(unknown, (_only_inside, _only_inside)), **general}


def _only_inside(_translator: object, _node: nodes.Node) -> None:
    """Nothing before it, and nothing behind it."""


def whole_columns(app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Sphinx's event `doctree-resolved`: columns of text are so many characters wide."""
    if app.builder.format != "text":
        return
    for column in doctree.findall(nodes.colspec):
        column["colwidth"] = max(1, round(column.get("colwidth", 1)))


def lead_to_its_files(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`: what the one page shows lies at the root of the site.

    Sphinx writes the addresses of a page at the root, and the page into the front page's folder.
    """
    depth = app.config.root_doc.count("/")
    if error is not None or app.builder.name != "singlehtml" or not depth:
        return
    path = Path(app.builder.get_outfilename(app.config.root_doc))  # type: ignore[attr-defined]
    up = "/".join([".."] * depth)
    text = _OF_THE_ROOT.sub(rf"\g<1>{up}/", path.read_text("utf-8"))
    path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", know_all_parts)
    app.connect("doctree-resolved", whole_columns)
    app.connect("build-finished", lead_to_its_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
