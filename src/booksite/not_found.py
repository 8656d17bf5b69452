"""The page that hosts show where an address leads nowhere: `404.html` at the root of the site.

A host shows it at that address, in whatever folder this pretends to lie. So it loads nothing, and
its links count from the root of the site: from its address where that is known (LNATTN_SITE_URL),
else from the nearest folder above that has the front page, for which a few lines of script look.
(sphinx-notfound-page needs the address, or takes the root of the host for that of the site.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Sphinx's event `html-collect-pages`: one more page, in no contents and no search."""
    address = app.config.html_baseurl
    yield "404", {"site": address.rstrip("/") + "/" if address else ""}, "404.html"


def setup(app: Sphinx) -> None:
    app.connect("html-collect-pages", pages)
