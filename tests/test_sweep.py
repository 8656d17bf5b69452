"""Files that no page refers to leave the site with the next build; all others stay."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")

from booksite.sweep import MADE, sweep


@pytest.fixture
def site(tmp_path) -> Path:
    """A site with one file of every kind that is referred to, and one of every kind that is not."""
    for name, text in {
        "index.html": '<meta http-equiv="Refresh" content="0; url=book/index.html" />',
        "claims.json": "{}",
        "book/index.html": '<a href="../notebooks/01-a.html#x">1</a> <img src="../_images/a.png">',
        "notebooks/01-a.html": (
            "<img srcset='../_images/small.png 1x, ../_images/with%20space&amp;more.png?v=3 2x'>"
            '<a href="../_downloads/data/a.npz">data</a> <a href="../_sources/notebooks/01-a.md">'
            '<a title="A title, as long as a name of a file may never be: ' + "long " * 99 + '">'
            '<a href="http://[broken">, <a href="https://example.org/_images/elsewhere.png">'
            '<a href="../_modules/used.html">source</a><a href="/../../../etc/passwd">'
        ),
        "notebooks/old.html": '<img src="../_images/of-old.png"> <a href="older.html">',
        "notebooks/older.html": '<a href="old.html">',
        "_modules/used.html": '<a href="../book/index.html">',
        "_modules/unused.html": "",
        "_images/a.png": "",
        "_images/small.png": "",
        "_images/with space&more.png": "",
        "_images/of-old.png": "",
        "_images/b.png": "",
        "_images/elsewhere.png": "",
        "_downloads/data/a.npz": "",
        "_downloads/data/b.npz": "",
        "_downloads/gone/c.npz": "",
        "_sources/notebooks/01-a.md": "",
        "_sources/notebooks/old.md": "",
        "_sources/.hidden/x.md": "",
        "_static/explorer/m/shard-1.js": "",
    }.items():
        path = tmp_path / "html" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "html"


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


UNUSED = [
    "_downloads/data/b.npz",
    "_downloads/gone/c.npz",
    "_images/b.png",
    "_images/elsewhere.png",
    "_images/of-old.png",
    "_modules/unused.html",
    "_sources/.hidden/x.md",
    "_sources/notebooks/old.md",
    "notebooks/old.html",
    "notebooks/older.html",
]


def test_what_no_page_refers_to_is_deleted_and_nothing_else(site):
    before = files(site)
    removed = sweep(site, ["book/index", *MADE])
    assert removed == UNUSED
    assert files(site) == before - set(UNUSED)
    assert not (site / "_downloads" / "gone").exists()
    assert not (site / "_sources" / ".hidden").exists()
    assert sweep(site, ["book/index", *MADE]) == []


def test_a_page_of_the_book_stays_though_no_other_page_links_to_it(site):
    removed = sweep(site, ["book/index", "notebooks/old"])
    assert not {"notebooks/old.html", "notebooks/older.html", "_images/of-old.png"} & set(removed)


def test_two_builds_leave_no_figure_of_the_first(tmp_path):
    """With Sphinx itself, which would keep them: a figure is exchanged, a chapter is dropped."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    source, out = tmp_path / "source", tmp_path / "html"
    (source / "part").mkdir(parents=True)
    (source / "conf.py").write_text("extensions = ['booksite.sweep']\n")
    for name in ("one.png", "two.png", "three.png"):
        (source / name).write_bytes(name.encode())  # Sphinx copies pictures, and reads none

    def built(picture: str, chapter: str) -> set[str]:
        index = f"T\n=\n\n.. image:: {picture}\n   :alt: it\n\n.. toctree::\n\n   part/{chapter}\n"
        (source / "index.rst").write_text(index)
        (source / "part" / f"{chapter}.rst").write_text("T\n=\n\n.. image:: /two.png\n")
        with docutils_namespace():  # or the next app of this process finds its nodes registered
            app = Sphinx(
                source, source, out, tmp_path / "doctrees", "html",
                status=io.StringIO(), warning=io.StringIO(),
            )  # fmt: skip
            app.build()
        assert app.statuscode == 0
        return {name for name in files(out) if not name.startswith("_static/")}

    first = {"_images/one.png", "part/old.html", "_sources/part/old.rst.txt"}
    assert first | {"_images/two.png"} <= built("one.png", "old")
    (source / "part" / "old.rst").unlink()
    second = built("three.png", "new")
    assert {"_images/two.png", "_images/three.png", "part/new.html", "search.html"} <= second
    assert not first & second
