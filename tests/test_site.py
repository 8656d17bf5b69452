"""The built site in a real browser: nothing from other hosts, no errors, mathematics, phones.

Skipped, by name, where the site is not built (`make book`) or no Chromium is installed.
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import browser
import pytest

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(os.environ.get("LNATTN_SITE", ROOT / "_build" / "html"))
SYSTEM_PAGES = {"genindex.html", "search.html", "py-modindex.html"}


#: Pages of source code are made alike, a hundred of them; these stand for all.
SOURCE_PAGES = {"_modules/index.html", "_modules/lnattn/attention/terms.html"}


def pages() -> list[str]:
    """Addresses of the pages below the site, the theme's own files and most source left out."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    theirs = ("_static/", "_sources/", "reports/", "_modules/", "index.html")
    return [page for page in found if page in SOURCE_PAGES or not page.startswith(theirs)]


needs_site = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built here; run: make book"
)
needs_browser = pytest.mark.skipif(
    browser.find() is None, reason="no Chromium is installed here; apt-get install chromium"
)
each_page = pytest.mark.parametrize("page", pages() or ["book/index.html"])


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser(browser.find()) as running:
        yield running


LOOK = """
(() => {
  const article = document.querySelector('.bd-article') ?? document.body;
  const formulas = [...article.querySelectorAll('.math')];
  return {
    formulas: formulas.length,
    rendered: formulas.filter(e => e.querySelector('mjx-container')).length,
    broken: [...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.title
      || e.dataset.mjxError || e.textContent),
    raw: formulas.filter(e => !e.querySelector('mjx-container')).map(e => e.textContent),
    nameless: [...article.querySelectorAll('img')].filter(e => !e.alt.trim()).map(e => e.src),
    empty: [...article.querySelectorAll('img')].filter(e => e.naturalWidth === 0).map(e => e.src),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    wide: [...article.querySelectorAll('*')]
      .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .slice(0, 5).map(e => e.tagName + '.' + e.className),
    headings: article.querySelectorAll('h1').length,
    language: document.documentElement.lang,
  };
})()
"""


@needs_site
@needs_browser
@each_page
def test_a_page_in_the_browser(page, address, chromium):
    tab = chromium.open(360, 740)
    try:
        tab.go(address + page)
        phone = tab.evaluate(LOOK)
        tab.resize(1280, 900)
        desktop = tab.evaluate(LOOK)
        tab.collect()
        requested = [event["request"]["url"] for event in tab.of("Network.requestWillBeSent")]
        failed = [
            event["response"]["url"]
            for event in tab.of("Network.responseReceived")
            if event["response"]["status"] >= 400
        ] + [event["errorText"] for event in tab.of("Network.loadingFailed")]
        errors = [
            event["entry"]["text"]
            for event in tab.of("Log.entryAdded")
            if event["entry"]["level"] == "error"
        ]
        errors += [
            str(event["args"])
            for event in tab.of("Runtime.consoleAPICalled")
            if event["type"] in {"error", "assert"}
        ]
        errors += [str(event["exceptionDetails"]) for event in tab.of("Runtime.exceptionThrown")]
    finally:
        tab.close()
    assert requested, "the browser reported no request at all"
    elsewhere = [url for url in requested if not url.startswith((address, "data:", "blob:"))]
    assert not elsewhere, "requests to other hosts"
    assert not failed, "requests that failed"
    assert not errors, "errors on the console"
    assert not phone["broken"], "formulas that MathJax could not read"
    assert not phone["raw"], "formulas that were not rendered"
    assert phone["rendered"] == phone["formulas"]
    assert not phone["nameless"], "images without alternative text"
    assert not phone["empty"], "images without content"
    assert phone["overflow"] <= 0, f"scrolls sideways at 360 px: {phone['wide']}"
    assert desktop["overflow"] <= 0, f"scrolls sideways at 1280 px: {desktop['wide']}"
    assert phone["language"] == "en"
    if page not in SYSTEM_PAGES:
        assert phone["headings"] == 1


@needs_site
def test_the_front_door_leads_to_the_preface():
    assert 'url=book/index.html"' in (SITE / "index.html").read_text(encoding="utf-8")


@needs_site
@needs_browser
def test_mathematics_is_there_at_all(address, chromium):
    tab = chromium.open()
    try:
        tab.go(address + "book/notation.html")
        assert tab.evaluate("document.querySelectorAll('mjx-container').length") > 20
    finally:
        tab.close()


class Anatomy(HTMLParser):
    """Ids, links and resources of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in {"script", "img", "iframe", "source"} and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in {"stylesheet", "preload", "icon"}:
            self.loaded.append(given["href"])


@functools.cache
def anatomy(path: Path) -> Anatomy:
    parser = Anatomy()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


@needs_site
@each_page
def test_every_link_inside_the_site_leads_somewhere(page):
    dead = []
    here = SITE / page
    for link in [*anatomy(here).links, *anatomy(here).loaded]:
        if urlsplit(link).scheme or link.startswith("//"):
            continue
        target, anchor = urldefrag(link)
        path = (here.parent / unquote(urlsplit(target).path)).resolve() if target else here
        if path.is_dir():
            path /= "index.html"
        if not path.is_file() or (
            anchor and path.suffix == ".html" and unquote(anchor) not in anatomy(path).ids
        ):
            dead.append(link)
    assert not dead


@needs_site
@each_page
def test_a_page_names_no_resource_of_another_host(page):
    assert not [src for src in anatomy(SITE / page).loaded if urlsplit(src).netloc]


@needs_site
def test_the_site_is_small():
    total = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    assert total < 30e6, f"{total / 1e6:.1f} MB"
