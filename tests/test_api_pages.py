"""The API reference: a page for each package, and an index that leads to every name."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from naming import naming

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from bs4 import BeautifulSoup
from small_site import build
from sphinx.pycode import ModuleAnalyzer

from booksite.pages import listed_pages
from booksite.reference import Summary, modules_below, modules_in
from lnattn_book.page.places import repository

FILES = {
    "__init__.py": '"""A package."""\n',
    "__main__.py": "raise SystemExit\n",
    "shapes.py": '"""Shapes: `area`, and more.\n\nAt length.\n"""\n\n\n'
    "from boxes.below import deep\n\n\n"
    "class Square(deep.Shape):\n"
    '    """Has four sides."""\n\n'
    "    def area(self):\n"
    '        """How large it is."""\n\n\n'
    "def area(shape):\n"
    '    """How large a shape is."""\n\n\n'
    "def _private(shape):\n"
    "    ...\n",
    "below/__init__.py": '"""A package below."""\n',
    "below/deep.py": '"""Deep."""\n\n\n'
    "class Shape:\n"
    '    """Has sides."""\n\n'
    "    def __init__(self, length):\n"
    "        self.length = length\n\n\n"
    'def dive():\n    """Go down."""\n',
}
PAGES = {
    "index.md": "# Index\n\n```{api-index} boxes\n```\n\n```{toctree}\ntop\nbelow\n```\n",
    "top.md": "# boxes\n\n```{api} boxes\n```\n",
    "below.md": "# boxes.below\n\n```{api} boxes.below\n```\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `boxes` that can be imported, and is forgotten."""
    for name, text in FILES.items():
        (tmp_path / "boxes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "boxes" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be believed for a second
    yield tmp_path / "boxes"
    forget()


def forget():
    """As in a new process, nothing is known of `boxes`."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "boxes"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    ModuleAnalyzer.cache.clear()


def built(folder, **settings):
    """The site of `PAGES`, its warnings, and Sphinx, in what is as good as a new process."""
    forget()
    extensions = ["myst_parser", "sphinx.ext.autodoc", "booksite.reference"]
    pages = {} if (folder / "source").is_dir() else PAGES  # a page that is written is read again
    return build(folder, pages, extensions=extensions, **settings)


def soup(site, page):
    return BeautifulSoup((site / page).read_text("utf-8"), "html.parser")


def test_modules_are_found_by_their_files_and_none_is_run(package):
    assert list(modules_below("boxes")) == [
        "boxes", "boxes.below", "boxes.below.deep", "boxes.shapes",
    ]  # fmt: skip
    assert modules_in("boxes") == ["boxes", "boxes.shapes"]
    assert modules_in("boxes.below") == ["boxes.below", "boxes.below.deep"]
    assert Summary.of("boxes.below.deep").names == ("Shape", "dive")
    assert Summary.of("boxes.below").line == "A package below."
    assert not {"boxes.shapes", "boxes.below"} & set(sys.modules)
    with pytest.raises(ImportError, match=naming("boxes.absent")):
        modules_in("boxes.absent")


def test_a_page_shows_its_package_and_the_index_leads_there(package, tmp_path):
    site, warnings, _ = built(tmp_path)
    assert not warnings
    top = soup(site, "top.html")
    assert [one.get_text().rstrip("¶") for one in top("h2")] == ["boxes.shapes"]
    assert top.find(id="boxes.shapes.Square.area")
    assert not top.find(id="boxes.below.deep.dive")
    assert soup(site, "below.html").find(id="boxes.below.deep.dive")
    index = soup(site, "index.html").find("dl", class_="api-index")
    assert [term.get_text() for term in index("dt")] == list(modules_below("boxes"))
    assert index("dd")[3].get_text("|", strip=True) == (
        "Shapes:|area|, and more.|Square|·|area"
    )  # fmt: skip
    # Where a name stood before, it leads to where it stands now.
    for anchor, page in {
        "module-boxes.shapes": "top.html",
        "boxes.shapes.Square": "top.html",
        "module-boxes.below": "below.html",
        "boxes.below.deep.dive": "below.html",
    }.items():
        assert index.find(id=anchor).a["href"] == f"{page}#{anchor}"
    scripts = [script.get("src", "") for script in soup(site, "index.html")("script")]
    assert [name for name in scripts if "api-index.js" in name]
    assert "api-index.js" not in (site / "top.html").read_text("utf-8")


def test_a_new_module_is_on_its_page_and_in_the_index(package, tmp_path):
    built(tmp_path)
    (package / "colours.py").write_text('"""Colours."""\n\n\ndef red():\n    """Red."""\n')
    site, warnings, _ = built(tmp_path)
    assert not warnings
    assert soup(site, "top.html").find(id="boxes.colours.red")
    assert soup(site, "index.html").find(id="boxes.colours.red")


def test_an_index_with_words_of_its_own_is_an_error(package, tmp_path):
    pages = {"index.md": "# Index\n\n```{api-index} boxes\nWords that would be lost.\n```\n"}
    _, warnings, _ = build(tmp_path, pages, extensions=["myst_parser", "booksite.reference"])
    assert "api-index" in warnings


def is_run(module):
    return module in sys.modules


@pytest.mark.parametrize(
    ("file", "before", "after", "shown"),
    [
        pytest.param("shapes.py", "Has four", "Has 4", "Has 4 sides.", id="docstring changed"),
        pytest.param("shapes.py", '"""Has four sides."""', "pass", "", id="docstring removed"),
        pytest.param("below/deep.py", "(self, length)", "(self, size)", "Square(size)", id="base"),
        pytest.param("shapes.py", "def area(shape)", "def _area(shape)", "", id="no function"),
        pytest.param("__init__.py", '."""\n', '."""\n\nimport os\n', "", id="nothing shown"),
    ],
)
def test_a_page_is_never_older_than_the_package(package, tmp_path, file, before, after, shown):
    """Also where nothing else has changed; what it then shows is what a first build shows."""
    site, _, _ = built(tmp_path)
    old = soup(site, "top.html").get_text()
    text = (package / file).read_text("utf-8")
    assert before in text
    (package / file).write_text(text.replace(before, after), encoding="utf-8")
    site, warnings, _ = built(tmp_path)
    assert not warnings
    assert is_run("boxes.shapes")
    new = soup(site, "top.html").get_text()
    assert (new == old) is (file == "__init__.py")
    assert shown in new
    anew = tmp_path / "anew"
    anew.mkdir()
    assert soup(built(anew)[0], "top.html").get_text() == new


def test_every_package_has_a_page_in_the_contents():
    packages = [name for name in modules_below("lnattn") if len(modules_in(name)) > 1]
    pages = {
        f"book/api/{name.rpartition('.')[2]}.md": f"# {name}\n\n```{{api}} {name}\n```\n"
        for name in packages
    }
    files = {path.relative_to(repository()).as_posix(): path for path in API.glob("*.md")}
    assert {name: path.read_text("utf-8") for name, path in files.items()} == pages
    assert set(pages) <= set(listed_pages(repository()))
    shown = [module for name in packages for module in modules_in(name)]
    assert sorted(shown) == sorted(modules_below("lnattn"))


API = repository() / "book" / "api"


def test_an_old_address_leads_on(package, tmp_path, chromium):
    """With the part of the page; a method has no line in the index, but its class has."""
    from browsing import tab_in

    from booksite.assets import FOLDER

    site, _, _ = built(tmp_path)
    script = (FOLDER / "api-index.js").read_text("utf-8")
    index = site / "index.html"
    index.write_text(re.sub("</body>", f"<script>{script}</script></body>", index.read_text()))
    with tab_in(chromium) as tab:
        for asked, page in {
            "module-boxes.shapes": "top.html",
            "boxes.shapes.Square.area": "top.html",
            "boxes.below.deep.dive": "below.html",
        }.items():
            tab.page.goto("about:blank")
            tab.page.goto(f"{index.as_uri()}#{asked}")
            tab.page.wait_for_url(f"**/{page}#{asked}")
        for staying in ("", "#boxes", "#no.such.name"):
            tab.page.goto("about:blank")
            tab.page.goto(index.as_uri() + staying)
            assert tab.page.url.startswith(index.as_uri())
