"""The search of a small book in the book's theme: chapters first, and no TeX in what is shown."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest
from site_pages import served

pytest.importorskip("sphinx_book_theme", reason="the book's theme is absent: pip install .[book]")
from small_site import build

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
CHAPTER = r"""Does :math:`T^{ee}`
===================

By :math:`\sigma_{i} T^{ee}` its AUROC is :math:`\sqrt{d'} \le \max_i 1`.

.. raw:: html

   <details class="hide"><summary>Setup</summary>import unread</details>

.. math::

   \begin{aligned} a &= \frac{b}{c} \\ d \end{aligned}

So high.
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
    tree = ".. toctree::\n\n   notebooks/06-heads\n   book/api-auroc\n   book/other\n"
    pages = {
        "index.rst": f"Start\n=====\n\n{tree}",
        "book/api-auroc.rst": API,
        "book/other.rst": "AUROC\n=====\n\nNothing but a title.\n",
        "notebooks/06-heads.rst": CHAPTER,
    }
    out, warnings, _ = build(
        tmp_path_factory.mktemp("search"),
        pages,
        project="Test",
        html_theme="sphinx_book_theme",
        html_css_files=["book.css"],
        html_static_path=[str(Path(__file__).parents[1] / "book" / "static")],
        extensions=["booksite.assets"],
    )
    assert not warnings
    return out


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
    assert "By sigma_i T^ee its AUROC is sqrtd' le max_i 1." in " ".join(first["shown"].split())
    assert not set("\\{}") & set(first["shown"])
