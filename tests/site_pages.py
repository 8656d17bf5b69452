"""The built site that the tests look at, its pages, and a small server for it."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(os.environ.get("LNATTN_SITE", ROOT / "_build" / "html"))
#: Old addresses, which lead on to new ones and are no pages of the book: old → new.
REDIRECTS: dict[str, str] = {
    f"{old}.html": new
    for old, new in yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"]["config"][
        "redirects"
    ].items()
}
#: A site that was looked at before, if any: what is the same there need not be looked at again.
SEEN = os.environ.get("LNATTN_SEEN")
SYSTEM_PAGES = {"genindex.html", "search.html", "py-modindex.html"}
#: Where a published site has its second edition (see booksite.publish).
EMBEDDED = "embedded/"
#: Pages of source code are made alike, a hundred of them; these stand for all.
SOURCE_PAGES = {"_modules/index.html", "_modules/lnattn/attention/terms.html"}


def pages() -> list[str]:
    """Addresses of the pages below the site, the theme's own files and most source left out.

    Those of another edition, in a folder of its own, are another site.
    """
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    theirs = (
        "_static/",
        "_sources/",
        "reports/",
        "_modules/",
        ".pytest_cache/",
        "index.html",
        EMBEDDED,
    )
    return [
        page
        for page in found
        if page in SOURCE_PAGES or (not page.startswith(theirs) and page not in REDIRECTS)
    ]


def seen_before(page: str) -> bool:
    """Whether the site that was looked at before has the same text and figures on this page."""
    other = Path(SEEN or "", page)
    if not SEEN or not other.is_file():
        return False
    here, there = (
        _ARTICLE.search(path.read_text(encoding="utf-8")) for path in (SITE / page, other)
    )
    return bool(here and there) and here[0] == there[0]


_ARTICLE = re.compile(r"<article.*</article>", re.DOTALL)


needs_site = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built here; run: make book"
)
each_page = pytest.mark.parametrize("page", pages() or ["book/index.html"])

_COMPRESSED = (".html", ".css", ".js", ".json", ".svg", ".txt")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files compressed, as web hosts do, and says nothing."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not (path.is_file() and path.suffix in _COMPRESSED):
            super().do_GET()
            return
        body = _gzipped(path)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)  # the browser may have left the page


@functools.cache
def _gzipped(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)


@contextlib.contextmanager
def served(folder: Path, handler: type = _Quiet) -> Iterator[str]:
    """The address of a server for a folder, on this machine only."""
    of_folder = functools.partial(handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), of_folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
