"""Style sheets and icons are cut to what a site shows, and to nothing less."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pydata_sphinx_theme
import pytest
from fontTools.ttLib import TTFont
from site_pages import SITE, needs_site

from booksite import weight

FONTS = Path(pydata_sphinx_theme.__file__).parent / (
    "theme/pydata_sphinx_theme/static/vendor/fontawesome/webfonts"
)


@pytest.mark.parametrize(
    ("sheet", "kept"),
    [
        ("p{a:b}", "p{a:b}"),
        (".seen{a:b}.unseen{a:b}", ".seen{a:b}"),
        ("#seen .seen > p{a:b}#unseen p{a:b}", "#seen .seen > p{a:b}"),
        (".seen.unseen, p .seen{a:b}", "p .seen{a:b}"),
        (".seen:not(.unseen){a:b}", ".seen:not(.unseen){a:b}"),
        (".seen:is(.unseen, p){a:b}", ".seen:is(.unseen, p){a:b}"),
        (r".sd-w\/2{a:b}.seen:hover{a:b}", ".seen:hover{a:b}"),
        ("@media print{.seen{a:b}.unseen{a:b}}", "@media print{.seen{a:b}}"),
        ("@media print{.unseen{a:b}}@supports (a:b){p{a:b}}", "@supports (a:b){p{a:b}}"),
        ("@font-face{src:url(a)}", "@font-face{src:url(a)}"),
        (
            "@import 'basic.css';@keyframes turn{from{a:b}}",
            "@import 'basic.css';@keyframes turn{from{a:b}}",
        ),
        (".bs-tooltip-end .seen{a:b}", ".bs-tooltip-end .seen{a:b}"),
        ("/* why */ p{a:b}\n.seen{a:b}\n", "p{a:b}.seen{a:b}"),
        ("@media print{ /* why */ p{a:b}\n .unseen{a:b} }", "@media print{p{a:b}}"),
        ("@media print{p{content:'} .unseen{'}}", "@media print{p{content:'} .unseen{'}}"),
    ],
)
def test_a_rule_stays_if_its_names_stand_on_a_page(sheet, kept):
    shorter = weight.cut(sheet, {"seen"})
    assert re.sub(r'"', "'", shorter) == kept
    assert weight.cut(shorter, {"seen"}) == shorter, "the next build cuts it again"


def test_a_sheet_that_cannot_be_read_is_not_cut():
    with pytest.raises(ValueError, match="line 1: "):
        weight.cut(".seen{a:b} }", {"seen"})


def test_names_are_read_from_pages_and_scripts_and_not_from_data(tmp_path):
    for file, text in {
        "book/page.html": '<p class="on-page">',
        "_static/theme.js": "element.classList.add('by-script')",
        "_static/data/rows.js": 'lnattnExplorer.receivePacked("rows", "ofdata")',
        "_static/mathjax/tex.js": "'apart'",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    words = weight.words_of(tmp_path)
    assert {"on-page", "by-script"} <= words
    assert not {"ofdata", "apart"} & words


def test_a_font_keeps_the_icons_that_a_sheet_sets(tmp_path):
    sheet = r'.a:before{content:"\f0c9"}.b:before{content:"' + "\uf002" + '"}.c{content:"\\201c"}'
    assert weight.signs_of(sheet) == {0xF0C9, 0xF002}
    ends = r"\dfff\e000\f8ff\f900"
    assert weight.signs_of(ends) == {0xE000, 0xF8FF}
    assert weight.signs_of("\ue000\uf8ff\uf900") == {0xE000, 0xF8FF}
    font = tmp_path / "fa-solid-900.ttf"
    font.write_bytes((FONTS / font.name).read_bytes())
    font.with_suffix(".woff2").write_bytes(b"")
    before = font.stat().st_size
    weight.cut_font(font, weight.signs_of(sheet))
    with TTFont(font) as cut, TTFont(FONTS / font.name) as whole:
        assert set(cut.getBestCmap()) == {0xF0C9, 0xF002}
        name = whole.getBestCmap()[0xF0C9]
        assert cut["glyf"][cut.getBestCmap()[0xF0C9]].coordinates == whole["glyf"][name].coordinates
        contours = [font["glyf"][".notdef"].numberOfContours for font in (cut, whole)]
        assert contours[0] == contours[1] > 0, "what stands for a sign that is missing"
        assert cut["head"].modified == whole["head"].modified, "two builds, two fonts"
    assert font.stat().st_size < before / 20
    assert not font.with_suffix(".woff2").exists(), "pages ask for the other one"
    weight.cut_font(font, weight.signs_of(sheet))  # the next build cuts it again


def test_a_site_keeps_its_rules_its_icons_and_no_second_way_to_draw_them(tmp_path):
    static = tmp_path / "_static"
    fonts, script = static / weight._FONTS, static / weight._ICONS
    fonts.mkdir(parents=True)
    script.parent.mkdir()
    name = "fa-solid-900.ttf"
    (fonts / name).write_bytes((FONTS / name).read_bytes())
    script.write_text("draw()")
    source = 'url(a.woff2) format("woff2"),url(a.ttf) format("truetype")'
    (static / "a.css").write_text(f"@font-face{{src:{source}}}.icon:before{{content:'\\f0c9'}}")
    (static / "b.css").write_text(".unseen{a:b}")
    (tmp_path / "page.html").write_text('<i class="icon">')
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    weight.cut_files(app, None)
    sheet = (static / "a.css").read_text()
    assert "woff2" not in sheet
    assert 'url(a.ttf) format("truetype")' in sheet
    assert (static / "b.css").read_text() == ""
    assert script.read_text().startswith("/*")
    with TTFont(fonts / name) as cut:
        assert set(cut.getBestCmap()) == {0xF0C9}
    script.unlink()
    weight.cut_files(app, None)
    assert not script.exists()


def test_mathjax_leaves_pages_without_a_formula():
    """Its file, as an object or an address, and its settings, which stand in the page."""

    def script(filename, **attributes):
        return SimpleNamespace(filename=filename, attributes=attributes)

    kept = [script("_static/theme.js"), script(None, body="let a = 1"), "_static/own.js"]
    mathjax = [
        script("_static/mathjax/tex.js"),
        script(None, body="window.MathJax = {}"),
        "_static/mathjax/tex.js",
    ]
    equations = SimpleNamespace(data={"has_equations": {"with": True, "without": False}})
    pages = SimpleNamespace(get_domain=lambda _name: equations)
    sphinx = SimpleNamespace(env=pages, builder=SimpleNamespace(name="html"))
    for page, wanted in (("with", mathjax + kept), ("without", kept), ("front", kept)):
        context = {"script_files": mathjax + kept}
        weight.load_mathjax_where_formulas_are(sphinx, page, "page.html", context, None)
        assert context["script_files"] == wanted
    sphinx.builder.name = "singlehtml"  # one page with the formulas of all
    context = {"script_files": mathjax + kept}
    weight.load_mathjax_where_formulas_are(sphinx, "front", "page.html", context, None)
    assert context["script_files"] == mathjax + kept


def test_scripts_wait_for_the_page_but_for_the_settings():
    class Script(SimpleNamespace):
        def __init__(self, filename, priority=500, **attributes):
            super().__init__(filename=filename, priority=priority, attributes=attributes)

    shared = [
        Script("_static/documentation_options.js", 200),
        Script("_static/doctools.js", 200),
        Script("_static/a.js", **{"async": "async"}),
        Script("", body="let it = 1"),
    ]
    context = {"script_files": shared}
    weight.wait_for_the_page(None, "book/index", "", context, None)
    deferred = [script.attributes.get("defer") for script in context["script_files"]]
    assert deferred == [None, "defer", None, None]
    assert "defer" not in shared[1].attributes, "the pages share their scripts"
    search = {"script_files": shared}
    weight.wait_for_the_page(None, "search", "", search, None)
    assert search["script_files"] is shared


@needs_site
def test_the_front_page_asks_at_once_for_what_its_widget_opens_with():
    page = (SITE / "book" / "index.html").read_text("utf-8")
    asked = re.findall(r'<link rel="preload"[^>]* href="([^"]*)"', page)
    assert len(asked) == 2
    for address in asked:
        assert (SITE / "book" / address.partition("?")[0]).resolve().is_file()


@needs_site
def test_style_sheets_of_the_site_are_a_quarter_of_the_themes():
    sheets = [file for file in (SITE / "_static").rglob("*.css") if "mathjax" not in file.parts]
    assert 100_000 < sum(file.stat().st_size for file in sheets) < 250_000
