"""A chapter made by the recipe: four places, and what is there stays."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import chapter_style
import jupytext
import pytest
import yaml
from naming import naming

from lnattn_book.page.places import repository

ROOT = repository()
_spec = importlib.util.spec_from_file_location("new_chapter", ROOT / "tools" / "new_chapter.py")
new_chapter = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(new_chapter)


@pytest.fixture
def clone(tmp_path) -> Path:
    for folder in ("notebooks", "src/lnattn_book/chapters", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    return tmp_path


def test_a_new_chapter_is_four_places(clone):
    before = yaml.safe_load((ROOT / "_toc.yml").read_text())
    paths = new_chapter.new_chapter("two-layers", "Two layers", clone)
    assert [path.relative_to(clone).as_posix() for path in paths] == [
        "notebooks/two-layers.md",
        "src/lnattn_book/chapters/two_layers.py",
        "tests/test_chapter_two_layers.py",
        "_toc.yml",
    ]
    assert chapter_style.complaints(paths[0]) == "", "in style, and as jupytext writes it"
    after = yaml.safe_load((clone / "_toc.yml").read_text())
    *_, last = before["parts"][:3]  # of the three parts that are numbered
    last["chapters"].append({"file": "notebooks/two-layers"})
    assert after == before


def test_its_code_runs_and_its_test_passes(clone, monkeypatch):
    """The cells with the module in place of one that would have to be installed."""
    new_chapter.new_chapter("two-layers", "Two layers", clone)
    module_path = clone / "src/lnattn_book/chapters/two_layers.py"
    name = "lnattn_book.chapters.two_layers"
    spec = importlib.util.spec_from_file_location(name, module_path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(__import__("sys").modules, name, module)
    monkeypatch.setattr("lnattn_book.chapters.two_layers", module, raising=False)
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    names: dict[str, object] = {}
    cells = jupytext.read(clone / "notebooks/two-layers.md").cells
    for cell in cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
    assert len(names["norms"]) == 8
    tested: dict[str, object] = {}
    exec((clone / "tests/test_chapter_two_layers.py").read_text(), tested)
    tested["test_a_norm_a_head"]()


@pytest.mark.parametrize("name", ["", "Two Layers", "../x", "-a", "a--b", "9lives"])
def test_a_name_that_is_none_is_refused(clone, name):
    with pytest.raises(ValueError, match=naming(repr(name), "two-layers")):
        new_chapter.new_chapter(name, "x", clone)


@pytest.mark.parametrize("name", ["class", "import", "lambda", "with"])
def test_a_word_of_python_is_no_name_of_a_module(clone, name):
    before = sorted(clone.rglob("*"))
    with pytest.raises(ValueError, match=naming(repr(name), "a word of Python")):
        new_chapter.new_chapter(name, "x", clone)
    assert sorted(clone.rglob("*")) == before


def test_what_is_there_is_not_written_over(clone):
    (clone / "notebooks/two-layers.md").write_text("mine")
    with pytest.raises(ValueError, match=naming("notebooks/two-layers.md")):
        new_chapter.new_chapter("two-layers", "x", clone)
    assert (clone / "notebooks/two-layers.md").read_text() == "mine"
    assert not (clone / "tests/test_chapter_two_layers.py").exists()


def test_a_clone_that_cannot_be_written_is_one_sentence(clone, monkeypatch, capsys):
    (clone / "notebooks").rename(clone / "elsewhere")
    monkeypatch.setattr(new_chapter.new_chapter, "__defaults__", (clone,))
    monkeypatch.setattr("sys.argv", ["new_chapter", "two-layers"])
    assert new_chapter.main() == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "notebooks/two-layers.md cannot be written" in said
