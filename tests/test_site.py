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
from site_pages import EMBEDDED, ROOT, SITE, SYSTEM_PAGES, each_page, needs_site, pages

from booksite import pdf, typography
from lnattn.book.style import model_name


@needs_site
def test_the_front_door_leads_to_the_preface():
    assert 'url=book/index.html"' in (SITE / "index.html").read_text(encoding="utf-8")


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
        if path.name == "token-explorer.html" and "=" in anchor:
            anchor = ""  # a view of the explorer, which its own script opens
        if not path.is_file() or (
            anchor and path.suffix == ".html" and unquote(anchor) not in anatomy(path).ids
        ):
            dead.append(link)
    assert not dead


@needs_site
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
@each_page
def test_a_page_shows_no_error_output_and_no_path_of_the_machine(page):
    text = (SITE / page).read_text(encoding="utf-8")
    assert not STDERR.search(text)
    assert not MACHINE.search(text)


@needs_site
def test_downloads_hold_no_error_output_and_no_path_of_the_machine():
    found = []
    for path in SITE.rglob("*"):
        if path.suffix in (".ipynb", ".json", ".md") and path.is_file():
            text = path.read_text(encoding="utf-8")
            if MACHINE.search(text) or (path.suffix == ".ipynb" and '"name": "stderr"' in text):
                found.append(path.relative_to(SITE).as_posix())
    assert not found


@needs_site
@each_page
def test_a_page_leads_to_the_other_edition(page):
    if not (SITE / EMBEDDED).is_dir():
        pytest.skip("one edition only: published sites have two (make publish)")
    text = (SITE / page).read_text(encoding="utf-8")
    assert text.count('class="btn btn-sm edition-switch"') == 1


def test_lists_without_items_lose_their_role():
    pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
    from booksite.roles import repaired

    books = '<div role="list" class="citation-list"><div role="doc-biblioentry">A</div></div>'
    assert repaired(books) == books.replace(' role="list"', "", 1)
    rest = "<dd>what it does</dd></dl><dl><dt>a</dt><dd>b</dd></dl>"
    signature = '<dl class="py"><dt class="sig x">f(<dl>\n<dd>a</dd>\n<dd>b</dd></dl>)</dt>'
    none = '<dl class="py"><dt class="sig x">f(<dl role="none">\n<dd role="none">a</dd>\n'
    assert repaired(signature + rest) == none + '<dd role="none">b</dd></dl>)</dt>' + rest


def test_only_pages_with_mathematics_load_mathjax():
    pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
    from sphinx.builders.html._assets import _CascadingStyleSheet, _JavaScript

    from booksite import light

    def loaded(body: str | None) -> list[str | None]:
        scripts = [_JavaScript("_static/a.js"), _JavaScript("_static/mathjax/tex-chtml.js?v=1")]
        scripts.append(_JavaScript(None, body="window.MathJax = {}"))
        styles = [_CascadingStyleSheet("_static/copybutton.css")]
        files = {"script_files": scripts, "css_files": styles}
        light.drop_unneeded(None, "page", "page.html", {"body": body, **files})
        return [file.filename for file in (*scripts, *styles)]

    both = ["_static/a.js", "_static/mathjax/tex-chtml.js?v=1", None]
    assert loaded('<p><span class="math notranslate nohighlight">x</span>') == both
    assert loaded("<p>raw \\(x\\)") == both
    assert loaded("<section class='mathjax_ignore'>words") == ["_static/a.js", None]
    assert loaded('<i data-note="a symbol, \\(x\\)">x</i>') == ["_static/a.js", None]
    assert loaded(None) == ["_static/a.js", None]
    code = '<div class="highlight-default notranslate"><div class="highlight"><pre>'
    assert loaded(code) == ["_static/a.js", None, "_static/copybutton.css"]


def test_icons_are_loaded_once(tmp_path):
    pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
    from booksite import light

    light.lighten(tmp_path)
    scripts = tmp_path / "_static" / "scripts"
    scripts.mkdir(parents=True)
    for name in ("fontawesome.js", "theme.js"):
        (scripts / name).write_text("x" * 5000)
    light.lighten(tmp_path)
    assert (scripts / "fontawesome.js").stat().st_size < 200
    assert (scripts / "theme.js").stat().st_size == 5000


def test_source_pages_of_one_depth_share_their_contents():
    pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
    from booksite import light

    shared, made, looked = light.SharedContents(), [], []

    def contents_on(page):
        def make(kind, **options):
            made.append((page, kind, options))
            return f"contents on {page}"

        context = {"generate_toctree_html": make, "sidebars": "search, contents, nothing"}
        shared.take(None, page, "page.html", context, None)
        if context["sidebars"]:  # the theme makes all parts, to see which are empty
            looked.append(page)
            context["sidebars"] = ["search.html", "contents.html"]
        shared.put(None, page, "page.html", context, None)
        assert context["sidebars"] == ["search.html", "contents.html"]
        return context["generate_toctree_html"]("sidebar", maxdepth=1)

    assert contents_on("_modules/lnattn/errors") == "contents on _modules/lnattn/errors"
    assert contents_on("_modules/lnattn/weights") == "contents on _modules/lnattn/errors"
    assert contents_on("_modules/lnattn/text/bpe") == "contents on _modules/lnattn/text/bpe"
    assert contents_on("notebooks/06") == "contents on notebooks/06"
    assert contents_on("notebooks/07") == "contents on notebooks/07"  # marks its own page as open
    assert len(made) == 4
    assert looked == ["_modules/lnattn/errors", "notebooks/06", "notebooks/07"]
    shared.put(None, "_modules/lnattn/errors", "page.html", {}, None)  # a builder without contents


#: Bytes of all that is in the site but the explorer, the other edition and the PDF. Nobody loads it
#: at once; half of it are data and pictures to download.
LARGEST_SITE = 40e6


@needs_site
def test_the_site_is_small():
    files = [path for path in SITE.rglob("*") if path.is_file()]
    other = SITE / EMBEDDED
    explorer = SITE / "_static" / "explorer"  # has a bound of its own: test_explorer
    own = [SITE / pdf.NAME, other / pdf.NAME]  # nobody loads it by reading
    apart = [path for path in files if path not in own and not path.is_relative_to(other)]
    total = sum(path.stat().st_size for path in apart if not path.is_relative_to(explorer))
    assert total < LARGEST_SITE, f"{total / 1e6:.1f} MB"


@needs_site
def test_symbols_and_minus_signs_are_set_on_every_page():
    """Setting them once more changes nothing."""
    for page in set(pages()) - SYSTEM_PAGES:
        text = (SITE / page).read_text(encoding="utf-8")
        article = text[text.find('<article class="bd-article"') : text.rfind("</article>")]
        reference = page.startswith(("book/api", "_modules/"))
        assert typography.typeset(article, reference) == article, page


@needs_site
@pytest.mark.skipif(not (SITE / pdf.NAME).is_file(), reason="not printed here; run: make pdf")
def test_the_pdf_is_offered_and_has_the_numbers_of_a_chapters_tables():
    from pypdf import PdfReader

    front = (SITE / "book" / "index.html").read_text(encoding="utf-8")
    assert f'href="../{pdf.NAME}"' in front
    assert (SITE / pdf.NAME).stat().st_size < 25e6
    (chapter,) = SITE.glob("notebooks/09-*.html")
    soup = BeautifulSoup(chapter.read_text(encoding="utf-8"), "html.parser")
    cells = [cell.get_text().strip() for cell in soup.select(".cell_output td.number")]
    reader = PdfReader(SITE / pdf.NAME)
    parts = [part for part in reader.outline if not isinstance(part, list)]
    pages = [reader.get_destination_page_number(part) for part in parts]
    begin = next(n for n, part in enumerate(parts) if part.title.strip().startswith("09"))
    shown = " ".join(page.extract_text() for page in reader.pages[pages[begin] : pages[begin + 1]])
    assert len(cells) > 20
    assert not [cell for cell in cells if cell not in " ".join(shown.split())]


def claims() -> dict:
    return json.loads((SITE / "claims.json").read_text(encoding="utf-8"))


@needs_site
def test_the_claims_page_has_every_record_with_all_its_links():
    page = BeautifulSoup((SITE / "book" / "claims.html").read_text("utf-8"), "html.parser")
    rows = [row.select("td, th") for row in page.select("tr")]
    shown = {row[0].get_text().split()[0]: row[3] for row in rows if len(row) == 4}
    records = [(claim["id"], found) for claim in claims()["claims"] for found in claim["found"]]
    assert records, "no chapter registered anything"
    for claim_id, found in records:
        chip = f"{found['verdict']} · {model_name(found['model'])}"
        assert chip in shown[claim_id].get_text()
    for claim in claims()["claims"]:
        chips = shown[claim["id"]].select(".chip")
        assert len(chips) == len({(one["model"], one["verdict"]) for one in claim["found"]})
        linked = [link.get_text() for link in shown[claim["id"]].select(".look-at a")]
        chapters = [text for text in linked if text.startswith("chapter")]
        assert len(chapters) == len(claim["found"]), f"{claim['id']} lacks a link"
        assert linked.count("test") == len(chips)
    functions = {found["function"] for _, found in records}
    links = [link["href"] for link in page.select("tr a[href]")]
    linked = {link.split("#")[1] for link in links if "/api" in link or "api-" in link}
    plain = {name for name in functions if name not in linked and f"module-{name}" not in linked}
    assert not plain, "functions that the API reference does not have"


@needs_site
def test_the_preface_says_what_the_claims_page_says():
    assert claims()["summary"] in (SITE / "book" / "index.html").read_text(encoding="utf-8")
