"""A page loads only what it shows: icons that are used, and no search before it is asked for."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx_book_theme", reason="the book's theme is absent: pip install .[book]")

import pydata_sphinx_theme  # below the book's theme
from fontTools.ttLib import TTFont
from small_site import build
from sphinx.builders.html import StandaloneHTMLBuilder

from booksite import icons

#: A character each of the icons that a page of the theme always has, and of some that none has.
USED = {"magnifying-glass": 0xF002, "bars": 0xF0C9, "moon": 0xF186}
#: Modules whose source is shown, and the navigation beside it.
SHOWN = ("errors", "progress")
SIDEBAR = re.compile(r'<nav class="bd-links.*?</nav>', re.DOTALL)
UNUSED = {"anchor": 0xF13D, "github": 0xF09B, "paper-plane": 0xF1D8}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Two pages in the book's theme, made by Sphinx itself."""
    pages = {
        "static/more.js": "const mine = 'fa-dragon';",
        "index.rst": "Title\n=====\n\n.. note:: Seen so far.\n\n.. toctree::\n\n   other\n",
        "other.rst": "Other\n=====\n\nWords.\n",
    }
    out, warnings, _ = build(
        tmp_path_factory.mktemp("light"),
        pages,
        project="Test",
        html_theme="sphinx_book_theme",
        html_last_updated_fmt="%Y",
        extensions=["booksite.icons", "booksite.light"],
        html_static_path=["static"],
    )
    assert not warnings
    return out


def fonts_in(styles: str) -> list[TTFont]:
    return [
        TTFont(io.BytesIO(base64.b64decode(data)))
        for data in re.findall(r"data:font/woff;base64,([^)]+)\)", styles)
    ]


def test_the_style_sheet_holds_the_used_icons_and_no_others(site):
    styles = (site / icons.STYLES).read_text(encoding="utf-8")
    (font,) = fonts_in(styles)
    held = font.getBestCmap().keys()
    assert set(USED.values()) <= held
    assert not set(UNUSED.values()) & held
    for name, code in USED.items():
        assert f".fa-{name}:before{{content:" in styles
        assert font["glyf"][font.getBestCmap()[code]].numberOfContours > 0, name
    for name in UNUSED:
        assert f".fa-{name}:before" not in styles
    assert ".fa-dragon:before" in styles, "named in a script only"
    assert 0xF6D5 in held
    assert "webfonts" not in styles
    assert not (site / icons.FONTS).exists()


def test_icons_that_the_theme_names_by_their_characters_stay(site):
    """The sign of a note comes from a rule of the theme, not from a class of the page."""
    styles = (site / icons.STYLES).read_text(encoding="utf-8")
    named = icons.characters(styles) | icons.characters(
        (site / "_static" / "styles" / "sphinx-book-theme.css").read_text(encoding="utf-8")
    )
    (font,) = fonts_in(styles)
    assert 0xF0F3 in named, "the theme's bell, of a note"
    assert {0xF0F3, 0xF06A} <= font.getBestCmap().keys()


def test_brands_are_embedded_where_a_page_asks_for_one(site, tmp_path):
    theme = Path(pydata_sphinx_theme.__file__).parent
    static = theme / "theme" / "pydata_sphinx_theme" / "static"
    for part in (icons.STYLES, *(icons.FONTS / f"{name}.ttf" for name in icons.FACES)):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_bytes((static / part.relative_to("_static")).read_bytes())
    (tmp_path / "a.html").write_text('<i class="fab  fa-github"></i><i class="far fa-file"></i>')
    fonts = sum(path.stat().st_size for path in (tmp_path / icons.FONTS).iterdir())
    assert icons.lighten(tmp_path) > fonts / 2
    styles = (tmp_path / icons.STYLES).read_text(encoding="utf-8")
    families = [font["name"].getDebugName(4) for font in fonts_in(styles)]
    assert len(families) == 3, families
    assert sum(0xF09B in font.getBestCmap() for font in fonts_in(styles)) == 1


def test_the_same_icons_give_the_same_bytes(site, tmp_path):
    font = Path(pydata_sphinx_theme.__file__).parent.joinpath(
        "theme", "pydata_sphinx_theme", "static", "vendor", "fontawesome", "webfonts",
        "fa-solid-900.ttf",
    )  # fmt: skip
    once = icons.smaller_font(font, USED.values())
    assert icons.smaller_font(font, reversed(USED.values())) == once
    assert len(once) < font.stat().st_size / 10
    times = [TTFont(file)["head"].modified for file in (font, io.BytesIO(once))]
    assert times[0] == times[1], "the time of the build is in the file"
    assert icons.smaller_font(font, [0x41_41_41]) == b""


def test_another_theme_is_left_as_it_is(tmp_path):
    (tmp_path / icons.STYLES).parent.mkdir(parents=True)
    (tmp_path / icons.STYLES).write_text(".fa-anchor:before{content:'x'}")
    assert icons.lighten(tmp_path) == 0
    assert (tmp_path / icons.STYLES).read_text() == ".fa-anchor:before{content:'x'}"


def test_the_theme_makes_the_contents_once_for_pages_of_source(tmp_path, monkeypatch):
    made = []
    make = StandaloneHTMLBuilder._get_local_toctree

    def counted(builder, page, *parts, **options):
        made.append(page)
        return make(builder, page, *parts, **options)

    monkeypatch.setattr(StandaloneHTMLBuilder, "_get_local_toctree", counted)
    modules = "".join(f".. automodule:: lnattn.{name}\n   :members:\n" for name in SHOWN)
    pages = {
        "index.rst": "Title\n=====\n\n.. toctree::\n\n   other\n   more\n",
        "other.rst": f"Other\n=====\n\n{modules}",
        "more.rst": "More\n====\n",
    }
    out, _, _ = build(
        tmp_path,
        pages,
        html_theme="sphinx_book_theme",
        extensions=["sphinx.ext.autodoc", "sphinx.ext.viewcode", "booksite.light"],
    )
    shown = [out / "_modules" / "lnattn" / f"{name}.html" for name in SHOWN]
    sidebars = [SIDEBAR.findall(path.read_text(encoding="utf-8")) for path in shown]
    assert sidebars[0] == sidebars[1]
    assert '<a class="reference internal" href="../../more.html">More</a>' in sidebars[0][0]
    assert len([page for page in made if page.startswith("_modules/lnattn/")]) == 1
    assert {"index", "other", "more", "_modules/index"} <= set(made)


@pytest.mark.parametrize("page", ["index", "other", "genindex"])
def test_a_page_does_not_load_the_search(site, page):
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    assert "bd-search" in text, "the field for a search is there"
    for script in ("searchindex.js", "searchtools.js", "language_data.js"):
        assert script not in text
    assert 'name="docbuild:last-update"' in text
    assert text.count('name="viewport"') >= 1


def test_the_page_of_results_loads_the_search_once(site):
    text = (site / "search.html").read_text(encoding="utf-8")
    for script in ("searchindex.js", "searchtools.js", "language_data.js"):
        assert text.count(f'{script}"') == 1
