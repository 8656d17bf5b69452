"""A book of a few pages, built by Sphinx within the test's own process. Needs Sphinx."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils


def build(
    folder: Path, pages: Mapping[str, str] | None = None, builder: str = "html", **settings: Any
) -> tuple[Path, str, Sphinx]:
    """Write pages to `source` below a folder and build them: the site, its warnings, and Sphinx.

    pages: path below `source` → text, for what is not there yet; builder: Sphinx's, by its name;
    settings: Sphinx's, as in conf.py. The site is `_build/html` below the folder, where the book
    has its own. Where no model is named, it is one that no hub is asked for.
    """
    source, out = folder / "source", folder / "_build" / "html"
    for name, text in (pages or {}).items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    said = io.StringIO()
    # Else what this one registers with docutils would be there for the next one of the process.
    named = {"LNATTN_MODEL": os.environ.get("LNATTN_MODEL", "book-gpt2")}
    with mock.patch.dict(os.environ, named), patch_docutils(), docutils_namespace():
        app = Sphinx(
            source, None, out, out.parent / "doctrees", builder,
            confoverrides={
                "html_theme": "basic",
                # A dictionary of its own: extensions add to Sphinx's default for good.
                "source_suffix": {".rst": "restructuredtext"},
                **settings,
            },
            status=None, warning=said,
        )  # fmt: skip
        app.build()
    return out, said.getvalue(), app
