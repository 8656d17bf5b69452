"""Chapters run outside of Sphinx: which, how many at a time, and what remains of their runs.

The kernels are left out, but for one.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")
import nbformat
from apart import doubled, ended, marked, meeting

from booksite import execute
from lnattn_book.claims.verdicts import Record
from lnattn_book.page.places import repository

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
"""
RECORD = Record("holds", "3 of 4", claim="K1", model="tiny", chapter="a")


def chapter(folder: Path, name: str, code: str = "print(5)", tag: str = "shown") -> Path:
    path = folder / f"{name}.md"
    cell = f"```{{code-cell}} ipython3\n:tags: [{tag}]\n{code}\n```\n"
    path.write_text(f"{HEAD}# A title\n\n{cell}", encoding="utf-8")
    return path


def executed(path: Path, *outputs: dict):
    """The notebook of a chapter as if it had run, with outputs of its one code cell."""
    notebook = execute.read(path)
    notebook.cells[-1].outputs = [nbformat.from_dict(one) for one in outputs]
    return notebook


def registered(record: Record) -> dict:
    """The output that a registered claim leaves."""
    text = json.dumps(asdict(record))
    about = {"scrapbook": {"name": "claim:K1"}}
    data = {"text/plain": text}
    return {"output_type": "display_data", "metadata": about, "data": data}


def test_a_chapter_has_the_time_that_the_books_settings_give():
    config = yaml.safe_load((repository() / "_config.yml").read_text("utf-8"))
    assert config["execute"]["timeout"] == execute.TIMEOUT


def test_an_error_ends_a_chapter_and_is_told(tmp_path):
    path = chapter(tmp_path, "a", "1 / 0\n```\n\n```{code-cell} ipython3\nprint('later')")
    notebook, seconds, error = execute.execute(path)
    assert "ZeroDivisionError" in error
    assert notebook.cells[-1].outputs == []
    assert seconds >= 0


def test_what_was_run_is_found_again_and_a_changed_chapter_is_not(tmp_path):
    """Whatever was there before, and though no cell of it was counted."""
    cache = tmp_path / "cache"
    one, other = chapter(tmp_path, "a"), chapter(tmp_path, "b", "print(6)")
    assert execute.missing([one, other], cache) == [one, other]
    for _ in range(2):
        execute.keep(executed(one), 3.0, one, cache)
    assert execute.missing([one, other], cache) == [other]
    chapter(tmp_path, "a", "print(7)")
    assert execute.missing([one, other], cache) == [one, other]


@pytest.mark.parametrize("error", ["", "Traceback: no"])
def test_a_chapter_by_itself_is_written_and_kept_unless_it_failed(
    tmp_path, monkeypatch, capsys, error
):
    path, cache = chapter(tmp_path, "a"), tmp_path / "cache"
    stream = {"output_type": "stream", "name": "stdout", "text": "5\n"}
    notebook = executed(path, stream, registered(RECORD))
    monkeypatch.setattr(execute, "execute", lambda _path: (notebook, 12.4, error))
    target = tmp_path / "out" / "a.ipynb"
    arguments = ["--cache", str(cache), "--target", str(target), str(path)]
    assert execute.main(arguments) == bool(error)
    said = capsys.readouterr()
    assert f"[book] 12 s; with its outputs: {target}" in said.out
    assert len(nbformat.read(target, 4).cells[-1].outputs) == 2
    assert (f"[book] {RECORD.mark} {RECORD}\n" in said.out) == (not error)
    assert said.err.strip() == error
    assert execute.missing([path], cache) == ([path] if error else [])


# ---- Several at a time ---------------------------------------------------------------------------


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """What is run in place of kernels: names of chapters in order.

    Those in `failing` fail, and the processes of those in `lost` end without a result. begun: for
    each series of chapters, how many at a time, and the threads of each; ended: how many chapters
    had begun when a series ended.
    """

    def in_processes(work, items, jobs):
        begun.append((jobs, os.environ.get("OMP_NUM_THREADS")))
        try:
            for item in items:
                yield item, work(item)
        finally:
            ended.append(len(names))

    def run(path: Path) -> tuple | None:
        names.append(path.stem)
        if path.stem in lost:
            return None
        return executed(path), 2.4, "Traceback: no" if path.stem in failing else ""

    begun, ended, names = [], [], []
    failing, lost = set(), set()
    monkeypatch.setattr(execute, "in_processes", in_processes)
    monkeypatch.setattr(execute, "execute", run)
    monkeypatch.setattr(execute.os, "cpu_count", lambda: 8)
    for name in execute.THREADS:
        monkeypatch.delenv(name, raising=False)
    return {"begun": begun, "ended": ended, "names": names, "failing": failing, "lost": lost}


def test_chapters_share_the_cores_and_one_that_measures_times_comes_last_and_alone(
    ran, tmp_path, capsys
):
    paths = [chapter(tmp_path, "t", "print(1)", "timed")]
    paths += [chapter(tmp_path, name, f"print('{name}')") for name in "abc"]
    cache = tmp_path / "cache"
    execute.keep(executed(paths[-1]), 1.0, paths[-1], cache)
    asked = ["--cache", str(cache), "--jobs", "2", *map(str, paths)]
    assert execute.main(asked) == 0
    assert sorted(ran["names"][:2]) == ["a", "b"], "c was run before"
    assert ran["names"][2:] == ["t"]
    assert ran["begun"] == [(2, "4"), (1, None)]
    said = capsys.readouterr().out
    assert "[book] 3 of 3: t, 2 s" in said
    assert "1 of 3: " in said
    assert execute.missing(paths, cache) == []


def test_the_first_that_fails_ends_the_run_with_its_traceback(ran, tmp_path, capsys):
    paths = [chapter(tmp_path, name, f"print('{name}')") for name in "ab"]
    paths.append(chapter(tmp_path, "t", "print(1)", "timed"))
    ran["failing"].add("a")
    cache, reports = tmp_path / "cache", tmp_path / "html" / "reports"
    asked = ["--cache", str(cache), "--reports", str(reports), *map(str, paths)]
    for _ in range(2):
        assert execute.main(asked) == 1
        assert capsys.readouterr().err == "Traceback: no\n"
    assert [path.name for path in reports.iterdir()] == ["a.err.log"]
    assert (reports / "a.err.log").read_text() == "Traceback: no"
    assert "t" not in ran["names"]
    assert paths[0] in execute.missing(paths, cache)
    assert ran["names"] == ["a", "a"], "what waits is not run"
    assert ran["ended"] == [1, 2], "and the one that runs is waited for"
    assert {jobs for jobs, _ in ran["begun"]} == {1}, "one at a time where nothing is said"
    # Without a folder for reports the terminal has it.
    assert execute.run_missing(paths, cache, 1) == 1


def test_a_process_that_is_lost_is_named_with_its_chapter(ran, tmp_path, capsys):
    path = chapter(tmp_path, "a")
    ran["lost"].add("a")
    assert execute.run_missing([path], tmp_path / "cache", 1) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"{path}: the process that ran it ended")
    assert "1 of 1" not in said.out
    assert execute.missing([path], tmp_path / "cache") == [path]


def test_a_cache_must_be_named(capsys):
    with pytest.raises(SystemExit) as ended:
        execute.main(["a.md"])
    assert ended.value.code == 2
    assert "--cache" in capsys.readouterr().err


@pytest.mark.parametrize(("cores", "jobs", "each"), [(8, 3, 2), (2, 4, 1), (None, 1, 1), (1, 1, 1)])
def test_libraries_get_their_part_of_the_cores_and_what_a_user_set_stays(
    monkeypatch, cores, jobs, each
):
    monkeypatch.setattr(execute.os, "cpu_count", lambda: cores)
    for name in execute.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    with execute.cores_shared(jobs):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == str(each)
        assert os.environ["MKL_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in os.environ
    assert os.environ["MKL_NUM_THREADS"] == "7"


# ---- Processes -----------------------------------------------------------------------------------


@pytest.fixture(params=["fork", "spawn"] if sys.platform == "linux" else ["spawn"])
def context(request, monkeypatch):
    """Processes as on Linux, and as elsewhere."""
    monkeypatch.setattr(execute, "_CONTEXT", multiprocessing.get_context(request.param))


def test_every_item_has_a_process_of_its_own_and_its_result(context):
    found = {}
    for number, result in execute.in_processes(doubled, range(3), jobs=2):
        found[number] = result
        with pytest.raises(ProcessLookupError):  # it has ended: its memory is free for the next
            os.kill(result[1], 0)
    assert {number: result[0] for number, result in found.items()} == {0: 0, 1: 2, 2: 4}
    processes = {result[1] for result in found.values()}
    assert len(processes) == 3
    assert os.getpid() not in processes
    assert list(execute.in_processes(doubled, [], jobs=3)) == []


def test_as_many_run_at_a_time_as_asked(context, tmp_path):
    assert [both for _, both in execute.in_processes(meeting, [tmp_path] * 2, jobs=2)] == [True] * 2


def test_one_at_a_time_they_run_in_order(context):
    assert [item for item, _ in execute.in_processes(doubled, [3, 1, 2], jobs=1)] == [3, 1, 2]


@pytest.mark.parametrize("status", [0, 3])
def test_a_process_that_ends_without_a_result_gives_none(context, status):
    assert list(execute.in_processes(ended, [status], jobs=1)) == [(status, None)]


def test_where_no_more_is_taken_those_under_way_end_and_no_other_begins(context, tmp_path):
    fast, slow, never = (tmp_path / name for name in ("fast", "slow", "never"))
    results = execute.in_processes(marked, [fast, slow, never], jobs=2)
    assert next(results)[0] == fast
    results.close()
    assert slow.exists(), "it is waited for"
    assert not never.exists()


KILLED = """
import sys
from apart import large
from booksite import execute
list(execute.in_processes(large, [0.5, 1.0], jobs=2))
"""


def test_nothing_is_left_of_a_run_that_is_killed():
    """Each process ends when it finds that nobody reads what it sends."""
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert [run.stdout.readline() for _ in range(2)] == [b"begun\n"] * 2
        run.kill()
        rest, _ = run.communicate(timeout=30)  # until nobody holds the other end
        assert rest == b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
