"""The notebook that a page offers: its first cell says what it needs where it is opened."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")
import nbformat

from booksite import downloads


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
    with pytest.raises(Exception, match="needs a clone of its book") as caught:
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
    with pytest.raises(Exception, match=rf"{step} .* run this cell again") as caught:
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
