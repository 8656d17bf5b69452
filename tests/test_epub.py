"""Pages as an EPUB has them, and what builders other than HTML lack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

pytest.importorskip("latex2mathml", reason="latex2mathml is absent: pip install '.[book]'")
from docutils import nodes

from booksite import epub, other_builders
from lnattn_book.page.places import repository

PAGES = ("book/index", "notebooks/01-a")
HEAD = '<html xmlns="http://www.w3.org/1999/xhtml"><head>'
XHTML = "{http://www.w3.org/1999/xhtml}"


def made(body: str, head: str = "", **macros: str) -> ElementTree.Element:
    """The page 'notebooks/01-a' with this in it, as an XML parser reads what is written."""
    text = f"<!DOCTYPE html>\n{HEAD}{head}</head><body>{body}</body></html>"
    return ElementTree.fromstring(str(epub.as_xhtml("notebooks/01-a", text, PAGES, macros)))


def test_the_main_path_is_the_numbered_parts_and_what_they_refer_to():
    pages = epub.main_path(repository())
    assert pages[0] == "book/index"
    assert pages[-2:] == ["book/notation", "book/bibliography"]
    chapters = [page for page in pages if page.startswith("notebooks/")]
    assert [Path(page).name[:2] for page in chapters[:13]] == [f"{n:02d}" for n in range(1, 14)]
    assert "book/claims" not in pages


def test_what_a_browser_forgives_is_written_well():
    root = made('<p>a<br>b <img src="_images/a.svg?v=1" alt="x"><table border="1"></table>')
    assert root.find(f".//{XHTML}br") is not None
    assert root.find(f".//{XHTML}img").attrib == {"src": "_images/a.svg", "alt": "x"}
    assert root.find(f".//{XHTML}table").attrib == {}


def test_what_cannot_be_read_is_left_out():
    body = (
        '<script>a && b</script><style>p {}</style><button>run</button><p onclick="x()">kept</p>'
        '<img class="only-dark" src="b.svg"><img class="only-light" src="a.svg"><p hidden>h</p>'
    )
    root = made(body, head='<link rel="stylesheet" href="../_static/book.css?v=1">')
    assert [one.tag.removeprefix(XHTML) for one in root.find(f"{XHTML}body")] == ["p", "img"]
    assert root.find(f".//{XHTML}p").attrib == {}
    assert root.find(f".//{XHTML}img").get("src") == "a.svg"
    assert root.find(f".//{XHTML}link") is None
    kept = made("", head='<link rel="stylesheet" href="../_static/pygments.css?v=1">')
    assert kept.find(f".//{XHTML}link").get("href") == "../_static/pygments.css"


@pytest.mark.parametrize(
    ("href", "stays"),
    [
        ("../book/index.xhtml#top", True),
        ("#here", True),
        ("https://example.org/a", True),
        ("../book/claims.xhtml#k1", False),
        ("02-b.xhtml", False),
        ("../_downloads/figures/a.csv", False),
    ],
)
def test_a_link_to_what_the_epub_lacks_is_its_words(href, stays):
    root = made(f'<p>see <a href="{href}">these words</a></p>')
    assert "".join(root.itertext()).strip() == "see these words"
    assert (root.find(f".//{XHTML}a") is not None) == stays


def test_formulas_are_mathml_with_their_macros_and_numbers():
    body = (
        r'<p><span class="math">\(\LN(x)_i \le 2\)</span></p>'
        r'<div class="math"><span class="eqno">(7)</span>\[\begin{split}a &amp;= b\\ c &amp;= d'
        r"\end{split}\]</div>"
    )
    root = made(body, LN=r"\operatorname{LN}")
    inline, display = root.findall(f".//{XHTML}math") or root.findall(".//{*}math")
    assert inline.get("display") == "inline"
    assert display.get("display") == "block"
    assert "".join(inline.itertext()).replace(" ", "").startswith("LN(x)")
    assert "\\" not in "".join(root.itertext())
    assert root.find(f".//{XHTML}span[@class='eqno']").text == "(7)"


def test_a_macro_is_not_the_beginning_of_another_name():
    root = made(r'<span class="math">\(\LNx\)</span>', LN="WRONG")
    assert "WRONG" not in "".join(root.itertext())


# ---- Other builders ------------------------------------------------------------------------------


def app_of(builder: str, form: str, **handlers: dict):
    registry = SimpleNamespace(translation_handlers=handlers)
    return SimpleNamespace(builder=SimpleNamespace(name=builder, format=form), registry=registry)


def test_one_file_knows_all_parts_of_html():
    app = app_of("singlehtml", "html", html={"a": 1, "b": 2}, singlehtml={"b": 3})
    other_builders.know_all_parts(app)
    assert app.registry.translation_handlers["singlehtml"] == {"a": 1, "b": 3}
    app = app_of("html", "html", html={"a": 1})
    other_builders.know_all_parts(app)
    assert app.registry.translation_handlers == {"html": {"a": 1}}


def test_text_has_what_is_inside_a_part_that_it_does_not_know():
    app = app_of("text", "text", html={"card": 1, "paragraph": 2}, text={"own": 3})
    other_builders.know_all_parts(app)
    known = app.registry.translation_handlers["text"]
    assert known.keys() == {"card", "own"}, "a paragraph is the writer's own"
    assert known["card"][0](None, None) is None


@pytest.mark.parametrize(("form", "width"), [("text", 34), ("html", 33.5)])
def test_columns_of_text_are_whole(form, width):
    table = nodes.tgroup("", nodes.colspec(colwidth=33.5))
    app = app_of(form, form)
    other_builders.whole_columns(app, table, "page")
    assert table[0]["colwidth"] == width


def test_the_one_page_leads_to_its_files(tmp_path):
    page = tmp_path / "index.html"
    text = '<img src="_images/a.svg"><a href="_static/b">x</a><a href="#_static/c">y</a>'
    for builder, error, prefix in (
        ("singlehtml", None, "../"),
        ("html", None, ""),
        ("singlehtml", 1, ""),
    ):
        page.write_text(text)
        app = app_of(builder, "html")
        app.config = SimpleNamespace(root_doc="book/index")
        app.builder.get_outfilename = lambda _page: str(page)
        other_builders.lead_to_its_files(app, error)
        assert page.read_text() == text.replace('"_', f'"{prefix}_')
