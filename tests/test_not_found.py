"""The page for addresses that lead nowhere: its links lead home from any depth of any host."""

from __future__ import annotations

import shutil
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from site_pages import served
from small_site import build

from booksite.assets import TEMPLATES
from booksite.serve import Host, serve

PAGES = {"index.md": "# Front\n\nWords.\n"}


def built(folder: Path, address: str = "") -> Path:
    """A book of one page at that address."""
    site, warnings, _ = build(
        folder,
        PAGES,
        extensions=["myst_parser", "booksite.not_found"],
        templates_path=[str(TEMPLATES)],
        html_baseurl=address,
        html_title="Some book",
    )
    assert not warnings
    return site


class Silent(Host):
    def log_message(self, *_: object) -> None:
        pass


def test_it_stands_at_the_root_and_in_no_search(tmp_path):
    site = built(tmp_path)
    page = BeautifulSoup((site / "404.html").read_text("utf-8"), "html.parser")
    assert page.title.text == "No such page — Some book"
    assert page.h1.text == "No such page"
    assert {link["href"] for link in page("a")} == {"index.html"}
    assert page.form["action"] == "search.html"
    assert not page.base
    assert [link["href"] for link in page("link")] == ["data:,"], "what it cannot know the way to"
    for other in ("searchindex.js", "index.html"):
        text = (site / other).read_text("utf-8")
        assert "No such page" not in text
        assert "404.html" not in text


def test_its_links_are_absolute_where_the_address_is_known(tmp_path):
    site = built(tmp_path, "https://example.org/a&b")
    page = BeautifulSoup((site / "404.html").read_text("utf-8"), "html.parser")
    assert page.base["href"] == "https://example.org/a&b/"
    assert "fetch" not in page.script.text


def test_a_host_shows_it_with_the_right_status(tmp_path):
    with served(built(tmp_path), Silent) as address:
        with pytest.raises(HTTPError, match="404") as error:
            urlopen(f"{address}no/such/page.html")
        assert b"No such page" in error.value.read()
        assert urlopen(f"{address}index.html").status == 200


def test_a_host_without_such_a_page_says_so_itself(tmp_path):
    with served(tmp_path, Silent) as address, pytest.raises(HTTPError, match="404") as error:
        urlopen(f"{address}page.html")
    assert b"Error code: 404" in error.value.read()


@pytest.mark.parametrize("place", ["", "project/", "a/b/"])
def test_its_links_lead_home_from_any_depth(place, tmp_path, chromium):
    from browsing import tab_in

    site, host = built(tmp_path), tmp_path / "host"
    shutil.copytree(site, host / place)
    (host / "404.html").write_bytes((site / "404.html").read_bytes())
    with served(host, Silent) as address, tab_in(chromium) as tab:
        home = f"{address}{place}index.html"
        for missing in ("05-six-terms.html", "book/six-terms", "x/y/six_terms.html"):
            tab.page.goto(f"{address}{place}{missing}")
            tab.page.wait_for_selector("base", state="attached")
            assert tab.evaluate("[...document.links].map(one => one.href)") == [home, home]
            tab.page.click("button")
            tab.page.wait_for_url(f"{address}{place}search.html?q=six+terms")


def test_a_server_that_is_stopped_by_its_reader_ends_well(tmp_path, monkeypatch, capsys):
    def stopped(_server):
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", stopped)
    (tmp_path / "index.html").write_text("a book")
    assert serve(tmp_path, 0) == 0
    assert "the book is at http://" in "".join(capsys.readouterr())
