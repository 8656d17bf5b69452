"""The PDF: pages become one document with all tables and working links, and Chromium prints it."""

from __future__ import annotations

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from booksite import pdf
from lnattn.errors import ResultError

TABLE = pd.DataFrame({"head": ["first", "second"], "score": [0.123, 4567.0]})

FRONT = """<head><link rel="stylesheet" href="../_static/a.css?digest=1">
<script src="../_static/mathjax/tex.js?digest=2"></script><script>alert(1)</script></head>
<body><article class="bd-article"><section id="start"><h1>The title &amp; more<a class="headerlink"
href="#start">#</a></h1><p id="p">See <a href="../notebooks/one.html#there">one</a>,
<a href="#p">above</a>, <a href="api.html">the API</a>, <a href="https://example.org/x">far</a>.</p>
<div class="token-explorer">needs JavaScript</div><span id="book-as-pdf"></span></section></article>
</body>"""
ONE = """<head><link rel="stylesheet" href="../_static/a.css?digest=1"></head><body>
<article class="bd-article"><h1>Chapter one</h1><p id="there">Text <a href="../book/index.html">back
</a></p><details class="hide above-input"><summary>Setup</summary>hidden = 1</details>
<details class="solution"><summary>Solution</summary>because</details>
<div class="cell_output"><figure><img src="../_images/p.png" loading="lazy" alt="x">
<figcaption>A caption</figcaption></figure></div>%s</article></body>"""


#: Headings that move to the next page with what follows them.
SECTIONS = "".join(
    rf'<h2>A section   with <span class="math">\(x^{n}\)</span></h2><p>{"words " * 90}</p>'
    for n in range(40)
)


def flat(outline: list) -> list:
    """The entries of an outline in reading order."""
    return [e for one in outline for e in (flat(one) if isinstance(one, list) else [one])]


@pytest.fixture
def site(tmp_path):
    """A book of two pages, of which one has a table styled by pandas, and a page left out."""
    styled = TABLE.style.format(precision=2, thousands=",").set_properties(color="teal").to_html()
    wide = pd.DataFrame([[f"number{n:04d}" for n in range(30)]]).to_html()
    html = tmp_path / "_build" / "html"
    for name, text in {
        "book/index": FRONT,
        "notebooks/one": ONE % (styled + wide + SECTIONS),
    }.items():
        (html / name).parent.mkdir(parents=True, exist_ok=True)
        (html / f"{name}.html").write_text(text)
    whole = "@media print { .cell_output { break-inside: avoid } }"  # as the book's own styles say
    for name, text in {"_static/a.css": whole, "_static/mathjax/tex.js": ""}.items():
        (html / name).parent.mkdir(parents=True, exist_ok=True)
        (html / name).write_text(text)
    (html / "_images").mkdir()
    Image.new("L", (457, 1203), 99).save(html / "_images" / "p.png")  # taller than paper
    (tmp_path / "_toc.yml").write_text(
        "root: book/index\nparts:\n- chapters:\n  - file: notebooks/one\n"
        "    sections:\n    - file: book/api\n"
    )
    return html


def test_one_document_has_the_tables_and_its_links_stay_inside(site):
    folder = site.parent / "pdf"
    folder.mkdir()
    text = pdf.one_document(site, ["book/index", "notebooks/one"], folder)
    soup = BeautifulSoup(text, "html.parser")
    assert soup.title.text == "The title & more"
    cells = [cell.get_text() for cell in soup.select_one("table").select("td")]
    assert cells == ["first", "0.12", "second", "4,567.00"]
    assert {link["href"] for link in soup.select("a")} == {
        "#book-index", "#notebooks-one", "#notebooks-one--there", "#book-index--p",
        "https://example.org/x",
    }  # fmt: skip
    for link in soup.select("a[href^='#']"):
        assert soup.select_one(f"[id='{link['href'][1:]}']"), link
    for left_out in ("needs JavaScript", "hidden = 1", "alert(1)", "Setup"):
        assert left_out not in text
    assert soup.select_one("details.solution").has_attr("open")
    assert not soup.select_one("img").has_attr("loading")
    addresses = [soup.img["src"], *(one["href"] for one in soup.select("link"))]
    addresses += [one["src"] for one in soup.select("script[src]")]
    assert len(addresses) == 3
    assert all((folder / one).is_file() for one in addresses), addresses
    with pytest.raises(ResultError, match="run make book first"):
        pdf.one_document(site, ["book/absent"], folder)


def test_without_a_browser_one_sentence(site, monkeypatch):
    monkeypatch.setattr(pdf.shutil, "which", lambda _: None)
    with pytest.raises(ResultError, match="apt install chromium"):
        pdf.make_pdf(site.parents[1], site)


def test_a_browser_that_fails_leaves_what_was_there(site, tmp_path):
    (site / pdf.NAME).write_bytes(b"before")
    with pytest.raises(ResultError, match="could not print"):
        pdf.printed("false", site / "book" / "index.html", site / pdf.NAME)
    assert (site / pdf.NAME).read_bytes() == b"before"


@pytest.mark.skipif(pdf.find_chromium() is None, reason="no Chromium; apt-get install chromium")
def test_the_pdf_holds_the_numbers_and_the_front_page_offers_it(site):
    from pypdf import PdfReader

    path = pdf.make_pdf(site.parents[1], site)
    reader = PdfReader(path)
    text = " ".join(page.extract_text() for page in reader.pages)
    assert {"0.12", "4,567.00", "second"} <= set(text.split())
    # A figure taller than the paper is made smaller; else it would leave a page empty before it.
    assert all(len(page.extract_text().split()) > 1 or page.images for page in reader.pages)
    [shown] = [page for page in reader.pages if page.images]
    assert "A caption" in shown.extract_text()
    # A table wider than the paper is made smaller, not cut.
    right: dict[str, float] = {}
    for page in reader.pages:
        page.extract_text(
            visitor_text=lambda text, matrix, place, *_: right.setdefault(
                text.strip(), matrix[0] * place[4] + matrix[4]
            )
        )
    wide = [x for text, x in right.items() if text.startswith("number")]
    assert all(f"number{n:04d}" in text for n in range(30))
    assert wide
    assert max(wide) < reader.pages[0].mediabox.right - 60
    assert {"Contents", "Chapter one"} <= {entry.title.strip() for entry in flat(reader.outline)}
    pages = [reader.get_destination_page_number(entry) for entry in flat(reader.outline)]
    assert pages == sorted(pages)
    assert pages[-1] > pages[2]
    assert reader.metadata.title == "The title & more"
    for _ in range(2):  # a second time, the link is replaced
        page = (site / "book" / "index.html").read_text()
        assert page.count(f'href="../{pdf.NAME}"') == 1
        assert "(0 MB)" in page
        pdf.offer(site)
