"""What search engines and previews read of a page."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from types import SimpleNamespace

from docutils import nodes
from docutils.utils import new_document

from booksite import head

PREVIEW = "preview.png"


def test_a_text_is_cut_between_words_and_one_that_fits_is_whole():
    fits = "a" * 195 + " end."
    assert head.shortened(fits) == fits
    assert head.shortened("a" * 196 + " end.") == "a" * 196 + "…"
    assert head.shortened("one, two three", 6) == "one…"
    assert head.shortened("one two three", 8) == "one two…"


def page(*parts: nodes.Node) -> nodes.document:
    document = new_document("page")
    document += nodes.section("", *parts)
    return document


def test_a_page_is_described_by_its_first_prose():
    table = nodes.container("", nodes.paragraph("", "In a cell."))
    empty = nodes.paragraph("", "  ")
    listed = nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "A list\nof words.")))
    rest = nodes.paragraph("", "Later.")
    assert head.description_of(page(table, empty, listed, rest)) == "A list of words."
    assert head.description_of(page(table)) == ""
    assert head.description_of(None) == ""


def tags(doctree, address="", html_title="The book", **context) -> dict[str, str]:
    """The tags of a page, by what they are about."""
    config = SimpleNamespace(html_baseurl=address, html_title=html_title, project="A project")
    given = {"pathto": lambda name, is_file: f"../{name}" if is_file else "a page", **context}
    head.add_tags(SimpleNamespace(config=config), "book/a", "", given, doctree)
    found = re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)" />', given["metatags"])
    return dict(found)


def test_a_page_of_prose_is_an_article_with_its_own_words():
    found = tags(page(nodes.paragraph("", 'Say "six".')), title="<b>Six</b> &amp; more")
    assert found["og:type"] == "article"
    assert found["og:title"] == "Six &amp; more"
    assert found["description"] == found["og:description"] == "Say &quot;six&quot;."
    assert found["og:image"] == f"../_static/{PREVIEW}"
    assert "og:url" not in found, "where the site will be is not known"
    assert found["og:site_name"] == "The book"


def test_a_page_without_prose_or_title_has_the_books():
    found = tags(None, "https://example.org/b/", metatags='<meta name="own" content="1" />')
    assert found["own"] == "1"
    assert found["og:type"] == "website"
    assert (found["og:title"], found["description"]) == ("A project", "The book")
    assert found["og:url"] == "https://example.org/b/book/a.html"
    bare = tags(None, html_title="")
    assert bare["description"] == bare["og:site_name"] == "A project"
