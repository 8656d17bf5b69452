"""Chapters in processes of their own, and kernels that are forks of one that has imported much."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="MyST-NB is not installed; pip install -e '.[book]'")
from apart import doubled, ended, marked, meeting
from test_running import chapter

from booksite import forked

# ---- Processes -----------------------------------------------------------------------------------


@pytest.fixture(params=["fork", "spawn"] if forked.FORKS else ["spawn"])
def context(request, monkeypatch):
    """Processes as on Linux, and as elsewhere."""
    monkeypatch.setattr(forked, "_CONTEXT", multiprocessing.get_context(request.param))


def test_every_item_has_a_process_of_its_own_and_its_result(context):
    found = {}
    for number, result in forked.in_processes(doubled, range(3), jobs=2):
        found[number] = result
        with pytest.raises(ProcessLookupError):  # it has ended: its memory is free for the next
            os.kill(result[1], 0)
    assert {number: result[0] for number, result in found.items()} == {0: 0, 1: 2, 2: 4}
    processes = {result[1] for result in found.values()}
    assert len(processes) == 3
    assert os.getpid() not in processes
    assert list(forked.in_processes(doubled, [], jobs=3)) == []


def test_as_many_run_at_a_time_as_asked(context, tmp_path):
    assert [both for _, both in forked.in_processes(meeting, [tmp_path] * 2, jobs=2)] == [True] * 2


def test_one_at_a_time_they_run_in_order(context):
    assert [item for item, _ in forked.in_processes(doubled, [3, 1, 2], jobs=1)] == [3, 1, 2]


@pytest.mark.parametrize("status", [0, 3])
def test_a_process_that_ends_without_a_result_gives_none(context, status):
    assert list(forked.in_processes(ended, [status], jobs=1)) == [(status, None)]


def test_where_no_more_is_taken_those_under_way_end_and_no_other_begins(context, tmp_path):
    fast, slow, never = (tmp_path / name for name in ("fast", "slow", "never"))
    results = forked.in_processes(marked, [fast, slow, never], jobs=2)
    assert next(results)[0] == fast
    results.close()
    assert slow.exists(), "it is waited for"
    assert not never.exists()


KILLED = """
import sys
from apart import large
from booksite import forked
list(forked.in_processes(large, [0.5, 1.0], jobs=2))
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


# ---- Kernels -------------------------------------------------------------------------------------

REPORT = """
import json, os, pathlib, signal, sys, threading
there = {name: name in sys.modules for name in ("torch", "pandas", "tqdm.auto")}
import pandas
facts = {
    **there,
    "process": os.getpid(),
    "group": os.getpgid(0),
    "folder": os.getcwd(),
    "given": os.environ["GIVEN"],
    "columns": pandas.get_option("display.max_columns"),
    "ends when told": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "ends with its parent": any("Poller" in type(one).__name__ for one in threading.enumerate()),
}
print(json.dumps(facts))
"""
#: As a build's own (`settings.environment`).
IPYTHON = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
IPYTHON.append("--IPKernelApp.log_level=40")


def specified(folder: Path, argv: list[str]) -> None:
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    about = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about))


def run(folder: Path, monkeypatch, code: str, tag: str = "shown", argv: list[str] = IPYTHON):
    """Execute a chapter of this code in a build's process; that, ended, and the chapter's output.

    In a process of its own: what tests have imported, a build has not.
    """
    path = chapter(folder, "a", code, tag)
    specified(folder, argv)
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("GIVEN", "yes")
    command = [sys.executable, "-m", "booksite.execute", "--cache", str(folder / "cache")]
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    notebooks = list((folder / "cache").rglob("base.ipynb"))
    outputs = json.loads(notebooks[0].read_text())["cells"][-1]["outputs"] if notebooks else []
    return done, "".join("".join(one.get("text", "")) for one in outputs)


@pytest.mark.parametrize("tag", ["shown", "timed"])
def test_a_kernel_has_what_was_imported_and_one_that_measures_times_starts_from_nothing(
    tmp_path, monkeypatch, tag
):
    forks = forked.FORKS and tag == "shown"
    done, text = run(tmp_path, monkeypatch, REPORT, tag)
    assert done.returncode == 0, done.stderr
    facts = json.loads(text)
    assert facts["torch"] is facts["pandas"] is forks
    assert not facts["tqdm.auto"], "what it shows depends on where it is imported"
    assert facts["columns"] == 20, "pandas is told what it would have found"
    assert facts["group"] == facts["process"], "signals to the kernel's group are for it alone"
    assert facts["folder"] == str(tmp_path)
    assert facts["given"] == "yes"
    assert facts["ends when told"] is facts["ends with its parent"] is True
    assert done.stderr == ""


def test_a_kernel_that_dies_fails_its_chapter(tmp_path, monkeypatch):
    done, text = run(tmp_path, monkeypatch, "import os\nos.kill(os.getpid(), 9)")
    assert done.returncode == 1
    assert text == ""
    assert "Kernel died" in done.stderr
    assert f"{tmp_path / 'a.md'}: the process that ran it ended" in done.stderr


def test_a_kernel_of_another_interpreter_starts_as_it_says(tmp_path, monkeypatch):
    code = "import sys\nprint('torch' in sys.modules, sys.flags.dev_mode)"
    argv = [IPYTHON[0], "-X", "dev", *IPYTHON[1:]]
    done, text = run(tmp_path, monkeypatch, code, argv=argv)
    assert done.returncode == 0, done.stderr
    assert text == "False True\n"
