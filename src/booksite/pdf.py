"""The book as one PDF: the pages of the built site in one document, which Chromium prints.

So the PDF has the numbers, tables and equations of the site, set the same way. What needs a
browser, or is no reading (the explorer, the API reference, folded code), stays behind. Links
between the pages stay links, figures keep their numbers, and what is wider than the paper is
made smaller.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

from lnattn.errors import ResultError

NAME = "layernorm-and-attention.pdf"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Pages, or the beginnings of their names, that are looked things up in, or played with.
NOT_FOR_PAPER = ("book/api", "book/token-explorer")
#: Parts of a page that are for a screen.
_SCREEN_ONLY = (
    "script, style, button, .headerlink, .token-explorer, .try-this, details.hide, .only-dark"
)
#: Where the front page has its link, once there is a PDF.
_PLACE = '<span id="book-as-pdf">', "</span>"
OFFER = "".join(_PLACE)
_SETTING = Path(__file__).with_name("assets")
#: Seconds for Chromium to set some hundred pages; it needs one or two dozen.
_PATIENCE = 600


def find_chromium() -> str | None:
    """The path of an installed Chromium or Chrome, or None."""
    return next((path for name in CHROMIUMS if (path := shutil.which(name))), None)


def make_pdf(root: Path, site: Path) -> Path:
    """Print the built site to `NAME` in its folder, and offer it on the front page; the PDF's path.

    root: the repository, whose `_toc.yml` has the order of the pages. Raises `ResultError` where
    Chromium is absent, or does not finish.
    """
    chromium = find_chromium()
    if chromium is None:
        raise ResultError(
            "a PDF needs Chromium or Chrome, and none is on the path; on Debian and Ubuntu install "
            "it with: sudo apt install chromium. Any browser can print a page of the site."
        )
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    pages = [page for page in listed(contents) if not page.startswith(NOT_FOR_PAPER)]
    document = site.parent / "pdf" / "book.html"
    document.parent.mkdir(exist_ok=True)
    document.write_text(one_document(site, pages, document.parent), encoding="utf-8")
    printed(chromium, document, site / NAME)
    offer(site)
    return site / NAME


def listed(contents: Mapping) -> Iterator[str]:
    """The names of the pages in a table of contents (`_toc.yml`), in reading order."""
    if name := contents.get("root") or contents.get("file"):
        yield name
    for key in ("parts", "chapters", "sections"):
        for entry in contents.get(key, ()):
            yield from listed(entry)


def one_document(site: Path, pages: Sequence[str], folder: Path) -> str:
    """The articles of these pages in one HTML document, to be read from `folder`."""
    places = {page: page.replace("/", "-") for page in pages}
    head: dict[str, None] = {}
    articles, titles = [], []
    for page in pages:
        path = site / f"{page}.html"
        if not path.is_file():
            raise ResultError(f"{path} is not there; run make book first.")
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for one in soup.head.select("link[rel=stylesheet], script"):
            if one.name == "link" or "mathjax" in str(one).lower():
                _relocate(one, "href" if one.name == "link" else "src", page, site, folder)
                head.setdefault(str(one), None)
        article = soup.select_one("article.bd-article")
        for part in article.select(_SCREEN_ONLY):
            part.decompose()
        for part in article.select("details"):
            part["open"] = ""
        titles.append((places[page], article.h1.get_text(strip=True)))
        _localise(article, page, places, site, folder)
        articles.append(f'<section id="{places[page]}">{article}</section>')
    title = titles[0][1]
    rows = "".join(f'<li><a href="#{name}">{html.escape(text)}</a></li>' for name, text in titles)
    css, script = ((_SETTING / f"pdf.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head>'
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>{"".join(head)}'
        f'<style>{css}</style></head><body><nav class="contents"><h2>Contents</h2><ol>{rows}</ol>'
        f"</nav><main>{''.join(articles)}</main><script>{script}</script></body></html>"
    )


def _localise(article: Tag, page: str, places: Mapping[str, str], site: Path, folder: Path) -> None:
    """Names and addresses of a page, as they are where many pages are one document."""
    own = places[page]
    for part in article.select("[id]"):
        part["id"] = f"{own}--{part['id']}"
    for image in article.select("img"):
        _relocate(image, "src", page, site, folder)
        image.attrs.pop("loading", None)
    for link in article.select("a[href]"):
        address = urlsplit(link["href"])
        if address.scheme or address.netloc:
            continue
        there = normpath(str(PurePosixPath(page).parent / address.path)) if address.path else page
        there = there.removesuffix(".html")
        if there in places:
            anchor = f"--{address.fragment}" if address.fragment else ""
            link["href"] = f"#{places[there]}{anchor}"
        else:
            link.unwrap()  # a page that stays behind, or a file


def _relocate(part: Tag, name: str, page: str, site: Path, folder: Path) -> None:
    """An address within the site, as seen from `folder`; without the theme's checksums."""
    address = part.get(name, "")
    if address and not urlsplit(address).scheme:
        file = site / Path(page).parent / urlsplit(address).path
        part[name] = Path(os.path.relpath(file, folder)).as_posix()


def printed(chromium: str, document: Path, target: Path) -> None:
    """Print an HTML document; `ResultError` where Chromium fails, or stops half-way."""
    made = target.with_name(f".{target.name}")
    made.unlink(missing_ok=True)
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-pdf-header-footer", "--generate-pdf-document-outline", f"--print-to-pdf={made}",
        f"--virtual-time-budget={1000 * _PATIENCE}", document.as_uri(),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise ResultError(f"{chromium} did not print {document} in {_PATIENCE} s.") from error
    if done.returncode or not made.is_file():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ResultError(f"{chromium} could not print {document}: {' '.join(last)}")
    made.replace(target)


def offer(site: Path) -> None:
    """Put a link to the PDF on the front page, where its directive has left a place."""
    page, size = site / "book" / "index.html", (site / NAME).stat().st_size
    link = f'<a href="../{NAME}">The book as a PDF</a> ({size / 1e6:.0f} MB).'
    text = page.read_text(encoding="utf-8")
    begin, end = _PLACE
    place = re.compile(f"{re.escape(begin)}.*?{end}")
    if not place.search(text):
        raise ResultError(f"{page} has no place for the link to the PDF.")
    page.write_text(place.sub(f"{begin}{link}{end}", text, count=1), encoding="utf-8")
