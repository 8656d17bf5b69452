"""The built site's files: links and anchors lead somewhere, nothing is loaded from elsewhere.

Skipped, by name, where the site is not built (`make book`).
"""

from __future__ import annotations

import functools
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup
from site_pages import EMBEDDED, REDIRECTS, ROOT, SITE, each_page, needs_site

from lnattn_book.claims.listed import claim
from lnattn_book.claims.listed import claims as known_claims
from lnattn_book.page.style import model_name


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
@pytest.mark.whole
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
        if path.name == "token-explorer.html" and "=" in anchor:
            anchor = ""  # a view of the explorer, which its own script opens
        if not path.is_file() or (
            anchor and path.suffix == ".html" and unquote(anchor) not in anatomy(path).ids
        ):
            dead.append(link)
    assert not dead


@needs_site
@pytest.mark.whole
@each_page
def test_a_page_is_titled_once_and_no_head_of_a_column_is_empty(page):
    soup = BeautifulSoup((SITE / page).read_text("utf-8"), "html.parser")
    parts = soup.title.text.split(" — ")
    assert len(parts) == len(set(parts))
    assert not [cell for cell in soup.select("article thead th") if not cell.text.strip()]


@needs_site
@pytest.mark.whole
@each_page
def test_a_page_names_no_resource_of_another_host(page):
    assert not [src for src in anatomy(SITE / page).loaded if urlsplit(src).netloc]


#: What error output looks like in a page.
STDERR = re.compile(r'class="[^"]*\bstderr\b')
#: What tells on which machine a page was made. Not in the middle of a longer path or name.
MACHINE = re.compile(
    r"(?<![\w./-])("
    + "|".join(re.escape(f"{path}/") for path in {str(ROOT), str(Path.home()), sys.prefix})
    + r")|site-packages/|/ipykernel_\d"
)


@needs_site
@pytest.mark.whole
@each_page
def test_a_page_shows_no_error_output_and_no_path_of_the_machine(page):
    text = (SITE / page).read_text(encoding="utf-8")
    assert not STDERR.search(text)
    assert not MACHINE.search(text)


@needs_site
@pytest.mark.whole
def test_downloads_hold_no_error_output_and_no_path_of_the_machine():
    found = []
    for path in SITE.rglob("*"):
        if path.suffix in (".ipynb", ".json", ".md") and path.is_file():
            text = path.read_text(encoding="utf-8")
            if MACHINE.search(text) or (path.suffix == ".ipynb" and '"name": "stderr"' in text):
                found.append(path.relative_to(SITE).as_posix())
    assert not found
    assert len(notebooks()) == len(list((ROOT / "notebooks").glob("*.md"))), "each has its own"


def notebooks() -> list[Path]:
    return sorted(SITE.glob("_sources/notebooks/*.ipynb"))


@needs_site
@pytest.mark.whole
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_downloaded_notebook_has_its_outputs_and_the_page_its_drawings(path):
    """Every cell that the chapter's page shows an output of; drawing and data of every figure."""
    cells = [one for one in json.loads(path.read_text("utf-8"))["cells"] if one.get("outputs")]
    assert all(one["execution_count"] for one in cells)
    page = BeautifulSoup(
        (SITE / "notebooks" / f"{path.stem}.html").read_text("utf-8"), "html.parser"
    )
    assert len(cells) >= len(page.select("div.cell_output"))
    pictures = [
        output
        for one in cells
        for output in one["outputs"]
        if "image/png" in output.get("data", {})
    ]
    figures = [one for one in page.select("figure") if one.select("img[src*='_images/']")]
    assert len(pictures) >= len(figures)
    for figure in figures:
        files = [SITE / "notebooks" / link["href"] for link in figure.select(".figure-files a")]
        assert [file.suffix for file in files] == [".svg", ".csv"], figure.get("id")
        assert all(file.stat().st_size for file in files)
        assert figure.select_one("a.enlarge")


@needs_site
@pytest.mark.whole
@each_page
def test_a_page_leads_to_the_other_edition(page):
    if not (SITE / EMBEDDED).is_dir():
        pytest.skip("one edition only: published sites have two (make publish)")
    text = (SITE / page).read_text(encoding="utf-8")
    expected = page != "404.html"  # shown for whatever edition it was
    assert text.count('class="btn btn-sm edition-switch"') == expected


@needs_site
@pytest.mark.whole
@pytest.mark.parametrize("old", REDIRECTS)
def test_an_old_address_leads_to_a_page_of_the_book(old):
    """With the part of the page that was asked for, and without JavaScript too."""
    text = (SITE / old).read_text("utf-8")
    new = REDIRECTS[old]
    assert ((SITE / old).parent / new).is_file()
    assert f'window.location.replace("{new}" + window.location.hash)' in text
    assert f'content="0; url={new}"' in text


def claims() -> dict:
    return json.loads((SITE / "claims.json").read_text(encoding="utf-8"))


@needs_site
@pytest.mark.whole
def test_the_claims_page_has_every_record_with_all_its_links():
    page = BeautifulSoup((SITE / "book" / "claims.html").read_text("utf-8"), "html.parser")
    shown = {row["id"].removeprefix("claim-").upper(): row for row in page.select(".claim")}
    # A claim that is open and likely to remain so has a paragraph, and no row.
    listed = [one for one in claims()["claims"] if not claim(one["id"]).aside]
    assert not shown.keys() & {one.id for one in known_claims().values() if one.aside}, (
        "a row and a paragraph"
    )
    records = [(one["id"], found) for one in listed for found in one["found"]]
    assert records, "no chapter registered anything"
    for claim_id, found in records:
        chip = f"{found['verdict']} · {model_name(found['model'])}"
        assert chip in shown[claim_id].get_text()
    for record in listed:
        row = shown[record["id"]]
        blocks = row.select(".found")
        assert len(blocks) == len({(one["model"], one["verdict"]) for one in record["found"]})
        linked = [link.get_text() for link in row.select(".look-at a")]
        chapters = [text for text in linked if text.startswith(("chapter", "appendix"))]
        assert len(chapters) == len(record["found"]), f"{record['id']} lacks a link"
        files = row.select(".look-at")
        assert all(re.search(r"\btest|tests/test_", one.get_text()) for one in files)
    functions = {found["function"] for _, found in records if found["function"][:7] == "lnattn."}
    links = [link["href"] for link in page.select(".claim a[href]")]
    linked = {link.split("#")[1] for link in links if link.startswith("api/")}
    plain = {name for name in functions if name not in linked and f"module-{name}" not in linked}
    assert not plain, "functions that the API reference does not have"
