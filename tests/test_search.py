"""The search of a small book in the book's theme: chapters first, and no TeX in what is shown."""

from __future__ import annotations

import io
from pathlib import Path

import browser
import pytest
from site_pages import SITE, needs_site, served

pytest.importorskip("sphinx_book_theme", reason="the book's theme is absent: pip install .[book]")
pytestmark = pytest.mark.skipif(
    browser.find() is None, reason="no Chromium is installed here; apt-get install chromium"
)

RESULTS = """
[...document.querySelectorAll('#search-results li')].map(one => ({
  page: one.querySelector('a').getAttribute('href').split('?')[0].split('#')[0],
  title: one.querySelector('a').textContent,
  shown: one.querySelector('p.context')?.textContent ?? '',
}))
"""
#: All results are listed, and what is shown of pages has been fetched.
DONE = """
/found|did not match/.test(document.querySelector('#search-results p')?.textContent ?? '')
&& [...document.querySelectorAll('#search-results li')].every(
     one => one.querySelector('p.context, span'))
"""
API = """API
===

.. py:module:: pack.auroc

.. py:function:: auroc(scores)

   The AUROC.

.. py:function:: head_auroc(scores)

   The AUROC of a head, auroc(scores).
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    place = tmp_path_factory.mktemp("search")
    styles = Path(__file__).parents[1] / "book" / "static"
    (place / "conf.py").write_text(
        "project = 'Test'\nhtml_theme = 'sphinx_book_theme'\nhtml_css_files = ['book.css']\n"
        "extensions = ['booksite.search', 'booksite.light']\n"
        f"html_static_path = [{str(styles)!r}]\n"
    )
    (place / "notebooks").mkdir()
    (place / "book").mkdir()
    tree = ".. toctree::\n\n   notebooks/06-heads\n   book/api-auroc\n   book/other\n"
    (place / "index.rst").write_text(f"Start\n=====\n\n{tree}")
    (place / "book" / "api-auroc.rst").write_text(API)
    (place / "book" / "other.rst").write_text("AUROC\n=====\n\nNothing but a title.\n")
    (place / "notebooks" / "06-heads.rst").write_text(
        "Does :math:`T^{ee}` \n===================\n\nBy :math:`\\sigma_{i} T^{ee}` its AUROC is "
        ":math:`\\sqrt{d'} \\le 1`.\n\n.. math::\n\n   \\begin{aligned} a &= \\frac{b}{c} \\\\ "
        "d \\end{aligned}\n\nSo high.\n"
    )
    said = io.StringIO()
    with docutils_namespace():
        app = Sphinx(
            place, place, place / "html", place / "doctrees", "html", status=said, warning=said
        )  # fmt: skip
        app.build()
    assert app.statuscode == 0, said.getvalue()
    return place / "html"


def found(chromium, address: str, query: str) -> list[dict[str, str]]:
    tab = chromium.open()
    try:
        tab.go(f"{address}search.html?q={query}")
        tab.until(DONE)
        return tab.evaluate(RESULTS)
    finally:
        tab.close()


def test_the_chapter_comes_first_and_the_api_last(small, chromium):
    with served(small) as address:
        results = found(chromium, address, "auroc")
    pages = [one["page"] for one in results]
    assert pages[0] == "notebooks/06-heads.html"
    assert set(pages[1:3]) == {"book/other.html", "index.html"}
    assert len(pages) >= 5
    assert set(pages[3:]) == {"book/api-auroc.html"}


def test_mathematics_is_shown_as_words(small, chromium):
    with served(small) as address:
        first = found(chromium, address, "auroc")[0]
    assert " ".join(first["title"].split()) == "Does T^ee"
    assert "By σ_i T^ee its AUROC is √d' ≤ 1." in " ".join(first["shown"].split())
    assert not set("\\{}") & set(first["shown"])


def test_the_magnifying_glass_covers_no_letter(small, chromium):
    tab = chromium.open(360, 740)
    try:
        with served(small) as address:
            tab.go(f"{address}search.html")
            glass, text = tab.evaluate("""(() => {
              const form = document.querySelector('.bd-search-container form.bd-search');
              const input = form.querySelector('input');
              return [form.querySelector('i, svg').getBoundingClientRect().right,
                      input.getBoundingClientRect().left
                      + parseFloat(getComputedStyle(input).paddingLeft)];
            })()""")
    finally:
        tab.close()
    assert 0 < glass <= text


@needs_site
def test_the_book_itself(chromium):
    with served(SITE) as address:
        results = found(chromium, address, "AUROC")
    assert results[0]["page"].startswith("notebooks/06-")
    chapters = [one["page"].startswith("notebooks/") for one in results]
    reference = ["book/api" in one["page"] for one in results]
    assert any(reference)
    assert not any(chapters[reference.index(True) :]), "the API reference comes before a chapter"
    assert not [one for one in results if "\\" in one["title"] + one["shown"]]
