"""What a page offers: its notebook, whose first cell says what it needs elsewhere, and its figures.

Chapters come from the execution cache, with outputs that are made up: no kernel is started.
"""

from __future__ import annotations

import base64
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from naming import naming
from PIL import Image

pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")
import nbformat
from bs4 import BeautifulSoup
from small_site import build
from sphinx.errors import ExtensionError

from booksite import downloads, execute
from lnattn_book.page.names import KEY, PNG


def first_cell(tmp_path, repository=""):
    path = tmp_path / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("6")]), path)
    cells = nbformat.reads(downloads.offered_notebook(path, repository), as_version=4).cells
    assert [cell.source for cell in cells[1:]] == ["6"]
    return compile(cells[0].source, "first cell", "exec")


def test_the_first_cell_does_nothing_at_home(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(subprocess, "run", started.append)
    exec(first_cell(tmp_path), {})
    assert started == []


@pytest.mark.parametrize("repository", ["", "https://example.org/book"])
def test_elsewhere_the_first_cell_is_one_sentence(tmp_path, monkeypatch, repository):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    with pytest.raises(Exception, match="clone") as caught:
        exec(first_cell(tmp_path, repository), {})
    (sentence,) = caught.value._render_traceback_()
    assert repository in sentence
    assert "\n" not in sentence
    assert 'pip install -e ".[book,lab]"' in sentence


@pytest.fixture
def on_colab(tmp_path, monkeypatch):
    """As on Colab, in an empty folder: the commands that were run, and those of them that fail."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    done, failing = [], []

    def run(command, check):
        assert not check
        done.append(command)
        if "clone" in command and "clone" not in failing:
            Path("book", "notebooks").mkdir(parents=True)
            Path("book", "pyproject.toml").touch()
        fails = any(word in command for word in failing)
        return subprocess.CompletedProcess(command, returncode=int(fails))

    monkeypatch.setattr(subprocess, "run", run)
    return done, failing


def test_on_colab_the_first_cell_gets_the_book(tmp_path, on_colab):
    done, _ = on_colab
    exec(first_cell(tmp_path, "https://example.org/book"), {})
    clone, install = done
    assert clone[:2] == ["git", "clone"]
    assert clone[-2:] == ["https://example.org/book", "book"]
    assert install[-1] == "./book[book]"
    assert Path.cwd() == tmp_path / "book" / "notebooks"


@pytest.mark.parametrize("step", ["clone", "install"])
def test_on_colab_a_step_that_fails_is_one_sentence_and_the_next_try_goes_on(
    tmp_path, on_colab, step
):
    done, failing = on_colab
    cell = first_cell(tmp_path, "https://example.org/book")
    failing.append(step)
    with pytest.raises(Exception, match=naming(step, "again")) as caught:
        exec(cell, {})
    (sentence,) = caught.value._render_traceback_()
    assert "\n" not in sentence
    assert Path.cwd() == tmp_path
    failing.clear()
    done.clear()
    exec(cell, {})
    tried = ["clone", "install"] if step == "clone" else ["install"]
    assert [next(word for word in ("clone", "install") if word in one) for one in done] == tried
    assert Path.cwd() == tmp_path / "book" / "notebooks"


# ---- Figures -------------------------------------------------------------------------------------

INDEX = """# Start

```{toctree}
notebooks/a
```
"""
CHAPTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
# A

(fig-plain)=
```{figure} plain.png
:alt: Plain

No drawing.
```

```{code-cell} ipython3
print("no picture")
```
"""
CELL = """
```{code-cell} ipython3
---
mystnb:
  figure: {name: fig-NAME, caption: Of NAME.}
  image: {alt: 'A "NAME"'}
---
NAME()
```
"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="12" height="7"><title>NAME</title></svg>'


#: Of each figure, a few or a megabyte and more.
NUMBERS = {"one": "x,one", "two": "x,two" + "\n1,2" * 300_000}


def picture(name: str, folder: Path) -> dict:
    """The output of a cell that draws: a picture, and with it its drawings and numbers."""
    file = folder / f"{name}.png"
    Image.effect_noise((32, 32), 80 + len(name)).save(file)
    svg = SVG.replace("NAME", name)
    carried = {"svg": svg, "csv": NUMBERS[name], "dark": svg.replace("12", "13")}
    data = {PNG: base64.b64encode(file.read_bytes()).decode()}
    about = {PNG: {KEY: carried}}
    return {"output_type": "display_data", "metadata": about, "data": data}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A site whose chapter has a plain figure and two with drawings, and its execution cache."""
    folder = tmp_path_factory.mktemp("book")
    chapter = folder / "source" / "notebooks" / "a.md"
    chapter.parent.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(chapter.with_name("plain.png"))
    text = CHAPTER + "".join(CELL.replace("NAME", name) for name in ("one", "two"))
    chapter.write_text(text)
    notebook = execute.read(chapter)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = {"output_type": "stream", "name": "stdout", "text": "no picture"}
    for count, cell in enumerate(codes, 1):
        cell.execution_count = count
    codes[0].outputs = [nbformat.from_dict(printed)]
    for name, cell in zip(("one", "two"), codes[1:], strict=True):
        cell.outputs = [nbformat.from_dict(picture(name, folder))]
    execute.keep(notebook, 1.0, chapter, folder / "cache")
    settings = {
        "extensions": ["myst_nb", "booksite.downloads", "booksite.opening"],
        "nb_execution_mode": "cache",
        "nb_execution_cache_path": str(folder / "cache"),
        "source_suffix": {".md": "myst-nb"},
        "suppress_warnings": ["myst-nb.lexer"],  # which a kernel would name
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNATTN_REPOSITORY", "https://example.org/book")
        site, warnings, _ = build(folder, {"index.md": INDEX}, **settings)
    assert not warnings
    return site


def test_a_figure_is_a_drawing_for_light_and_dark_pages_with_its_files(book):
    page = BeautifulSoup((book / "notebooks" / "a.html").read_text("utf-8"), "html.parser")
    plain, one, two = page("figure")
    assert [img["src"] for img in plain("img")] == ["../_images/plain.png"]
    assert not plain.select(".figure-files")
    for figure, name in ((one, "one"), (two, "two")):
        light, dark = figure("img")
        assert light["class"][-1] == "only-light"
        assert dark["class"][-1] == "only-dark"
        assert light["src"] == light.parent["href"] == f"../_images/fig-{name}.svg"
        assert dark["src"] == dark.parent["href"] == f"../_images/fig-{name}-dark.svg"
        assert light["alt"] == dark["alt"] == f'A "{name}"'
        assert (light["width"], light["height"]) == ("12", "7")
        svg = SVG.replace("NAME", name)
        assert (book / "_images" / f"fig-{name}.svg").read_text() == svg
        assert (book / "_images" / f"fig-{name}-dark.svg").read_text() == svg.replace("12", "13")
        links = {a.text: a["href"] for a in figure.select(".figure-files a")}
        assert links == {
            "Drawing (SVG)": f"../_images/fig-{name}.svg",
            "data (CSV)": f"../_downloads/figures/fig-{name}.csv",
        }
        assert (book / "_downloads" / "figures" / f"fig-{name}.csv").read_text() == NUMBERS[name]
        line = figure.select_one(".figure-files").text
        assert (
            line
            == {
                "one": "Drawing (SVG) and data (CSV)",
                "two": "Drawing (SVG) and data (CSV), 1.2 MB",
            }[name]
        )
    loading = [img.get("loading") for figure in (one, two) for img in figure("img")]
    assert loading == [None, "lazy", "lazy", "lazy"], "the first of a page is fetched at once"


def test_a_page_offers_what_was_run_without_the_drawings(book):
    offered = nbformat.read(book / "_sources" / "notebooks" / "a.ipynb", 4)
    codes = [cell for cell in offered.cells if cell.cell_type == "code"]
    assert '"https://example.org/book"' in codes[0].source
    assert [cell.outputs[0].get("text") for cell in codes[1:]] == ["no picture", None, None]
    assert [len(cell.outputs) for cell in codes] == [0, 1, 1, 1]
    assert all(KEY not in str(cell.outputs) for cell in codes)
    assert not (book / "_sources" / "index.ipynb").exists(), "it runs no code"
    kept = book.parent / "jupyter_execute" / "notebooks" / "a.ipynb"
    assert KEY in kept.read_text()
    assert (book / "_sources" / "notebooks" / "a.ipynb").read_text().endswith("}\n")


@pytest.mark.parametrize("minor", [4, 5])
def test_cells_have_names_where_their_format_has_them(tmp_path, minor):
    notebook = nbformat.v4.new_notebook(nbformat_minor=minor)
    path = tmp_path / "a.ipynb"
    nbformat.write(notebook, path)
    offered = nbformat.reads(downloads.offered_notebook(path, ""), as_version=4)
    assert offered.nbformat_minor == minor
    assert ("id" in offered.cells[0]) == (minor == 5)


def on_page(tmp_path: Path, **facts) -> SimpleNamespace:
    """Sphinx at work on a page of a book whose execution cache is empty."""
    config = SimpleNamespace(nb_execution_mode="cache", nb_execution_cache_path=str(tmp_path / "c"))
    env = SimpleNamespace(docname="a", metadata={"a": {"kernelspec": "python3"}})
    return SimpleNamespace(config=config, env=env, outdir=tmp_path / "html", **facts)


def test_a_chapter_that_was_not_run_ends_the_build(tmp_path):
    app, context = on_page(tmp_path), {}
    downloads.complete(app, None)  # what MyST-NB has not written is not of its making
    with pytest.raises(ExtensionError, match=r"a\.ipynb is missing"):
        downloads.offer_notebook(app, "a", "", context, object())
    for page, doctree in (("a", None), ("b", object())):
        downloads.offer_notebook(app, page, "", context, doctree)
    assert context == {}
    path = downloads.executed(app, "a")
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("6")]), path)
    before = path.read_bytes()
    with pytest.raises(ExtensionError, match="not in the execution cache"):
        downloads.complete(app, None)
    app.config.nb_execution_mode = "force"
    downloads.complete(app, None)
    assert path.read_bytes() == before


def test_a_drawing_without_a_size_is_refused():
    assert downloads.size_of(SVG) == 'width="12" height="7"'
    with pytest.raises(ExtensionError, match="names no size"):
        downloads.size_of(re.sub(r'width="12"', "", SVG))
