"""What is made for pages of HTML is left out of other outputs of Sphinx, and no error there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from docutils import nodes
from small_site import build

from booksite import downloads, weight

PAGE = """# A page with $a$

Plain $a$.

```{token-explorer} sentence
```

```{claims-bars}
```
"""


@pytest.mark.parametrize("builder", ["dummy", "text"])
def test_nothing_of_the_site_is_written(tmp_path, monkeypatch, builder):
    monkeypatch.setenv("LNATTN_MODEL", "tiny")
    pages = {"index.md": PAGE, "book/glossary.yml": "- {tex: [a], words: a note}\n"}
    settings = {"extensions": ["myst_parser", "booksite"], "exclude_patterns": []}
    site, warnings, app = build(
        tmp_path, pages, builder, **settings, myst_enable_extensions=["dollarmath"]
    )
    assert warnings == ""
    assert app.builder.format != "html"
    written = {path.name for path in site.rglob("*")} - {".doctrees"}
    assert written == ({"index.txt"} if builder == "text" else set())


@pytest.mark.parametrize(("kind", "error"), [("", None), ("latex", None), ("html", ValueError())])
def test_no_style_sheet_is_cut(tmp_path, kind, error):
    sheet = tmp_path / "_static" / "theme.css"
    sheet.parent.mkdir()
    app = SimpleNamespace(builder=SimpleNamespace(format=kind), outdir=tmp_path)
    sheet.write_text(".unseen{a:b}")
    weight.cut_files(app, error)
    assert sheet.read_text() == ".unseen{a:b}"
    weight.cut_files(SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path), None)
    assert sheet.read_text() == ""


@pytest.mark.parametrize("kind", ["", "latex", "html"])
def test_no_picture_is_drawn_where_there_is_none(tmp_path, kind):
    """In HTML, where the chapter's picture is not among those of the site."""
    figure = nodes.figure("", nodes.image(uri="a.png"), ids=["fig-a"])
    images = {} if kind == "html" else {"a.png": (set(), "a.png")}
    builder = SimpleNamespace(format=kind, images={}, imagedir="_images")
    app = SimpleNamespace(builder=builder, env=SimpleNamespace(images=images), outdir=tmp_path)
    document = nodes.section("", figure)
    notebook = downloads.executed(SimpleNamespace(outdir=tmp_path / "html"), "a")
    if kind != "html":
        notebook.parent.mkdir()
        notebook.write_text("{}")
    app.outdir = tmp_path / "html"
    downloads.offer_drawings(app, document, "a")
    assert figure.children[0]["uri"] == "a.png"
