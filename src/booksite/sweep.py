"""Remove from the site what no page refers to any more.

Sphinx adds files to a site and never takes one away: a figure whose numbers changed, a chapter that
was renamed or a data file that is no longer offered would stay in `_build/html`, be published with
it, and count towards its size. After each build the pages are followed, from those that the book
has now, through every address in them; what was not reached is deleted.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx

#: Scripts load files from here by names that they compute. The explorer keeps its own part tidy.
LEFT_ALONE = "_static"
#: Pages that the book has without a source of its own, where Sphinx makes them.
MADE = ("index", "genindex", "py-modindex", "search", "_modules/index")

# An attribute of any name: a reference that is missed would delete what it refers to.
_VALUE = re.compile(r"""=\s*(?:"([^"]*)"|'([^']*)')""")
_REFRESH = re.compile(r"^\s*\d+\s*;\s*url=", re.IGNORECASE)


def referred(page: str, text: str) -> set[str]:
    """Every address in the attributes of a page's HTML, as a file's name relative to the site."""
    values = {_REFRESH.sub("", html.unescape(one or other)) for one, other in _VALUE.findall(text)}
    # `srcset` names several addresses, each followed by a size.
    parts = {part.split()[0] for value in values for part in value.split(",") if part.strip()}
    return {_target(page, address) for address in values | parts} - {""}


def _target(page: str, address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:  # text with a bracket in it, and no address
        return ""
    if parts.scheme or parts.netloc or not parts.path:
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path)))


def reached(site: Path, pages: Iterable[str]) -> set[str]:
    """Names of the site's files that can be reached from these pages (named without '.html')."""
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    seen = {f"{page}.html" for page in pages} & files
    waiting = list(seen)
    while waiting:
        page = waiting.pop()
        if not page.endswith(".html"):
            continue
        text = (site / page).read_text(encoding="utf-8")
        fresh = (referred(page, text) & files) - seen
        seen |= fresh
        waiting += fresh
    return seen


def sweep(site: Path, pages: Iterable[str]) -> list[str]:
    """Delete the files in the site's folders that cannot be reached from these pages.

    Left alone are the files at the site's top, and `_static`. Folders that become empty go too.
    Returns the names of the deleted files, relative to the site, in order.
    """
    used = reached(site, pages)
    removed = []
    for path in sorted(site.rglob("*"), reverse=True):  # what is in a folder before the folder
        name = path.relative_to(site)
        if name.parts[0] == LEFT_ALONE or name.as_posix() in used:
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif len(name.parts) > 1:
            path.unlink()
            removed.append(name.as_posix())
    return removed[::-1]


def when_finished(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`: a build that failed keeps everything."""
    if error is None and app.builder.format == "html":
        removed = sweep(Path(app.outdir), [*app.env.found_docs, *MADE])
        if removed:
            print(f"[book] removed {len(removed)} files that no page uses any more")


def setup(app: Sphinx) -> dict[str, Any]:
    # Before the figures are shrunk: those that go need not be.
    app.connect("build-finished", when_finished, priority=850)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
