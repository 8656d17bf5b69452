"""What a build does before the first page and after the last; no kernel is started."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from sphinx.config import Config

import booksite.execute  # noqa: F401  (its `missing` is replaced)
from booksite import execution, settings
from booksite.settings import Folders
from lnattn.errors import CheckpointError
from lnattn.models.choice import Choice


@pytest.fixture
def chosen(monkeypatch):
    """A build about a model that nothing is known of."""
    monkeypatch.setattr(execution, "resolve_model", lambda: Choice("tiny", "a test"))
    monkeypatch.setattr(execution, "execution_digest", lambda _root, model: f"of-{model}")


@pytest.fixture
def run(chosen, tmp_path, monkeypatch):
    """A build that has begun, 7 seconds ago."""
    begun = execution.begun(tmp_path, Folders(tmp_path / "_build"))
    begun.started = 100.0
    monkeypatch.setattr(execution, "time", SimpleNamespace(monotonic=lambda: 107.0))
    yield begun
    begun.finish()


def is_free(folders: Folders) -> bool:
    """Whether another build could begin in these folders."""
    lock = execution.FileLock(folders.caches / ".lock")
    try:
        lock.acquire(timeout=0)
    except execution.Timeout:
        return False
    lock.release()
    return True


# ---- The beginning -------------------------------------------------------------------------------


def test_the_book_is_the_nearest_folder_with_settings(tmp_path):
    inner = tmp_path / "book" / "inner"
    inner.mkdir(parents=True)
    assert execution.book_root(inner) == inner, "where there are none it is the folder itself"
    (tmp_path / "_config.yml").touch()
    assert execution.book_root(inner) == tmp_path
    (tmp_path / "book" / "_config.yml").touch()
    assert execution.book_root(inner) == tmp_path / "book"
    assert execution.book_root(tmp_path) == tmp_path


def test_a_build_has_the_cache_of_its_state_and_keeps_two_older_ones(chosen, tmp_path, capsys):
    folders = Folders(tmp_path / "deep" / "_build")
    for _ in range(2):  # folders that are there already are as good
        run = execution.begun(tmp_path, folders)
        assert run.cache == tmp_path / "deep" / "_build" / ".jupyter_cache" / "of-tiny" / "cells"
        assert run.environment["LNATTN_MODEL"] == "tiny"
        assert not is_free(folders)
        run.finish()
        run.finish()
        assert is_free(folders)
    assert "model tiny" in capsys.readouterr().out
    assert execution.prune(tmp_path / "new" / "one", keep="x") == []
    assert (tmp_path / "new" / "one" / "x").is_dir()


def test_a_model_that_cannot_be_had_ends_the_build_in_a_sentence(
    chosen, monkeypatch, tmp_path, capsys
):
    def absent():
        raise CheckpointError("there is no such model.")

    monkeypatch.setattr(execution, "resolve_model", absent)
    with pytest.raises(SystemExit) as ended:
        execution.begun(tmp_path, Folders(tmp_path / "_build"))
    assert ended.value.code == 2
    assert capsys.readouterr().err == "[book] there is no such model.\n"


def of_book(**values) -> Config:
    """Sphinx's settings with what Jupyter Book adds to them."""
    config = Config({}, {})
    for name, value in {"nb_execution_cache_path": "", "html_theme_options": {}, **values}.items():
        if name not in config:
            config.add(name, None, "env", ())
        setattr(config, name, value)
    return config


def test_files_are_named_from_the_books_root_and_the_cache_is_the_builds(
    chosen, tmp_path, monkeypatch
):
    monkeypatch.setattr(execution.os, "environ", {})
    (tmp_path / "_config.yml").touch()
    (tmp_path / "book").mkdir()
    app = SimpleNamespace(srcdir=tmp_path / "book", outdir=tmp_path / "_build" / "html")
    config = of_book(nb_execution_mode="cache", html_static_path=["a", "b"], html_favicon="c.svg")
    execution.prepare(app, config)
    run = getattr(app, execution.RUN)
    run.finish()
    assert run.root == tmp_path
    assert config.nb_execution_cache_path == str(run.cache)
    assert config.html_static_path == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert config.html_favicon == str(tmp_path / "c.svg")
    assert execution.os.environ["LNATTN_MODEL"] == "tiny"
    bare = of_book(nb_execution_mode="cache", html_favicon=None)
    execution.prepare(app, bare)
    getattr(app, execution.RUN).finish()
    assert bare.html_favicon is None


@pytest.mark.parametrize("mode", [{}, {"nb_execution_mode": "off"}])
def test_a_book_that_runs_no_code_is_left_alone(mode, tmp_path):
    app = SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "html")
    config = of_book(**mode)
    execution.prepare(app, config)
    assert not hasattr(app, execution.RUN)
    assert config.nb_execution_cache_path == ""


# ---- Chapters ------------------------------------------------------------------------------------

HEAD = "---\nkernelspec:\n  name: python3\n---\n"


@pytest.mark.parametrize(
    ("name", "text", "runs"),
    [
        ("a.ipynb", "{}", True),
        ("a.md", HEAD, True),
        ("a.md", "---\ntitle: kernels\n---\n", False),
        ("a.md", "# A title\n\nkernelspec: is a word\n", False),
        ("a.md", "", False),
    ],
)
def test_a_chapter_is_a_page_that_runs_code(tmp_path, name, text, runs):
    (tmp_path / name).write_text(text)
    assert execution.is_chapter(tmp_path / name) is runs


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Chapters a and b, of which the cache lacks b, and a page c; what is run; how it ends."""
    for name, text in {"a": HEAD, "b": HEAD, "c": "# C\n"}.items():
        (tmp_path / f"{name}.md").write_text(text)
    state = SimpleNamespace(
        env=SimpleNamespace(doc2path=lambda page: str(tmp_path / f"{page}.md")),
        commands=[], status=0, small=True, missing=["b.md"],
    )  # fmt: skip

    def execute(command, check):
        state.commands.append(command)
        if check and state.status:
            raise subprocess.CalledProcessError(state.status, command)
        return subprocess.CompletedProcess(command, state.status)

    monkeypatch.setattr(execution.subprocess, "run", execute)
    monkeypatch.setattr(execution, "is_small", lambda _choice: state.small)
    monkeypatch.setattr(
        "booksite.execute.missing",
        lambda chapters, _cache: [one for one in chapters if one.name in state.missing],
    )
    return state


def missing_executed(run, pages, names="abc"):
    app = SimpleNamespace(outdir=run.folders.html)
    setattr(app, execution.RUN, run)
    execution.execute_missing(app, pages.env, list(names))


@pytest.mark.parametrize(
    ("small", "cores", "jobs"),
    [(True, 8, "2"), (True, 1, "1"), (True, None, "1"), (False, 8, "1")],
)
def test_chapters_that_the_cache_lacks_are_run(run, pages, monkeypatch, small, cores, jobs):
    """Two at a time on a small model, where there are two cores."""
    monkeypatch.setattr(execution.os, "cpu_count", lambda: cores)
    pages.small = small
    missing_executed(run, pages)
    assert pages.commands == [
        [
            *(sys.executable, "-m", "booksite.execute", "--cache", str(run.cache)),
            *("--jobs", jobs, "--reports", str(run.folders.html / "reports")),
            str(run.root / "b.md"),
        ]
    ]
    assert run.limit == (2.5 if small else 3.5)
    assert run.progress is None
    assert not is_free(run.folders), "the build goes on"


def test_nothing_is_run_where_nothing_is_missing(run, pages):
    missing_executed(run, pages, "c")
    pages.missing = []
    missing_executed(run, pages, "ab")
    missing_executed(SimpleNamespace(folders=run.folders), pages, "")
    app = SimpleNamespace(outdir=run.folders.html)
    execution.execute_missing(app, pages.env, ["b"])  # of a book that runs no code
    assert pages.commands == []
    assert run.limit is None


def test_a_chapter_that_fails_ends_the_build_with_its_status(run, pages, capsys):
    pages.status = 3
    with pytest.raises(SystemExit) as ended:
        missing_executed(run, pages)
    assert ended.value.code == 3
    assert "[book] failed after 7 s; the first error is above" in capsys.readouterr().err
    assert is_free(run.folders)


# ---- The end -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [(None, "html", True), (ValueError("x"), "html", False), (None, "latex", False)],
)
def test_a_build_that_ends_says_where_the_book_is(run, capsys, error, kind, told):
    app = SimpleNamespace(outdir=run.folders.html, builder=SimpleNamespace(format=kind))
    execution.finish(app, error)  # of a book that runs no code
    assert capsys.readouterr().out == ""
    setattr(app, execution.RUN, run)
    execution.finish(app, error)
    said = capsys.readouterr().out
    assert (f"[book] built in 7 s: {run.folders.html / 'index.html'}" in said) is told
    assert "memory" not in said, "no chapter ran"
    assert is_free(run.folders)
    run.limit = 1e6
    execution.finish(app, error)
    assert json.loads((run.folders.build / "memory.json").read_text())["limit"] == 1e6


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_largest_process_is_told_in_gib(tmp_path, monkeypatch, capsys, system, unit):
    """Of this one and those below it; Linux counts in KiB, macOS in bytes."""
    sizes = {resource.RUSAGE_SELF: 1.5, resource.RUSAGE_CHILDREN: 2.256}
    monkeypatch.setattr(execution.sys, "platform", system)
    monkeypatch.setattr(
        execution.resource,
        "getrusage",
        lambda which: SimpleNamespace(ru_maxrss=sizes[which] * 2**30 / unit),
    )
    for limit, warned in ((2.256, False), (2.25, True)):
        execution.report_memory(tmp_path / "memory.json", limit)
        said = capsys.readouterr().out
        assert "took 2.26 GiB" in said
        assert ("WARNING: no process is to take more than" in said) is warned
        told = json.loads((tmp_path / "memory.json").read_text())
        assert told == {"limit": limit, "largest_gib": 2.26}


# ---- Folders and what kernels are told -----------------------------------------------------------


def test_a_page_that_is_built_alone_shares_the_folders_of_the_book(tmp_path):
    book = Folders.of(tmp_path / "_build" / "html")
    alone = Folders.of(tmp_path / "_build" / "_page" / "notebooks-01" / "html")
    assert book.build == alone.build == tmp_path / "_build"
    assert Folders.of(tmp_path / "out" / "html").build == tmp_path / "out" / "_build"
    assert [book.html, book.caches, book.doctrees, book.progress] == [
        tmp_path / "_build" / name
        for name in ("html", ".jupyter_cache", ".doctrees", "progress.log")
    ]


def test_kernels_find_the_book_and_nothing_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "mine")
    folders = Folders(tmp_path / "deep" / "_build")
    for _ in range(2):  # a second build finds the files of the first
        told = settings.environment(tmp_path, folders, Choice("tiny", "a test"))
    assert told["PYTHONPATH"].split(settings.os.pathsep) == [str(tmp_path), "mine"]
    for name in ("JUPYTER_PATH", "IPYTHONDIR", "MATPLOTLIBRC", "LNATTN_PROGRESS"):
        assert Path(told[name]).parent == folders.build, name
    kernel = Path(told["JUPYTER_PATH"], "kernels", "python3", "kernel.json")
    assert json.loads(kernel.read_text())["argv"][:3] == [
        sys.executable,
        "-m",
        "ipykernel_launcher",
    ]
    assert Path(told["MATPLOTLIBRC"]).read_text().startswith("#")
    monkeypatch.delenv("PYTHONPATH")
    assert settings.environment(tmp_path, folders, Choice("m", ""))["PYTHONPATH"] == str(tmp_path)
