"""Kept results: computed once, by one process, and never those of other weights or other code."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest

from lnattn import kept, progress
from lnattn.storage import read_result, write_result

KEY = {"weights": "a", "counts": "b", "pairs": 20}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_STUDIES", str(tmp_path / "studies"))
    monkeypatch.delenv("LNATTN_PROGRESS", raising=False)
    return tmp_path / "studies"


class Study:
    """A study that counts how often it runs."""

    def __init__(self) -> None:
        self.runs = 0

    def ask(self, key=KEY, name="sums"):
        def compute():
            self.runs += 1
            return np.arange(3) + self.runs

        return kept.kept(
            name,
            key,
            compute,
            write=lambda found, place: write_result(place, "sums", {"sums": found}, {}),
            read=lambda place: read_result(place, "sums")[0]["sums"],
        )


def test_the_second_time_is_read():
    study = Study()
    first, second = study.ask(), study.ask()
    assert study.runs == 1
    assert first.tolist() == second.tolist() == [1, 2, 3]


@pytest.mark.parametrize("change", [{"weights": "c"}, {"pairs": 21}, {"seed": 0}])
def test_another_key_is_another_result(change):
    study = Study()
    study.ask()
    assert study.ask(KEY | change).tolist() == [2, 3, 4]
    assert study.ask(name="other").tolist() == [3, 4, 5]
    assert study.ask().tolist() == [1, 2, 3]


def test_other_code_computes_again(monkeypatch):
    study = Study()
    study.ask()
    monkeypatch.setattr(kept, "code_digest", lambda: "other code")
    assert study.ask().tolist() == [2, 3, 4]


def test_the_code_of_studies_counts_and_that_of_pages_does_not(tmp_path, monkeypatch):
    package = tmp_path / "lnattn"
    for name in ("kept.py", "studies/a/b.py", "book/page.py", "cli.py", "commands/verify.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    monkeypatch.setattr(kept, "__file__", str(package / "kept.py"))
    digest = kept.code_digest.__wrapped__
    before = digest()
    for name in ("book/page.py", "cli.py", "commands/verify.py"):
        (package / name).write_text("2")
    assert digest() == before
    (package / "studies/a/b.py").write_text("2")
    assert digest() != before


def test_an_unknown_part_of_the_key_keeps_nothing(folder):
    study = Study()
    for _ in range(2):
        study.ask(KEY | {"weights": None})
    assert study.runs == 2
    assert not folder.exists()


def test_a_damaged_result_is_computed_again_and_said(folder, capsys):
    study = Study()
    study.ask()
    (arrays,) = folder.glob("sums-*/sums.npz")
    arrays.write_bytes(b"no zip")
    assert study.ask().tolist() == [2, 3, 4]
    assert "sums is computed again" in capsys.readouterr().err
    assert study.ask().tolist() == [2, 3, 4]


def test_a_failed_study_leaves_nothing_and_frees_the_lock():
    def fail():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        kept.kept("sums", KEY, fail, write=print, read=print)
    study = Study()
    assert study.ask().tolist() == [1, 2, 3]


def test_a_folder_that_cannot_be_written_costs_a_line_and_not_the_result(folder, capsys):
    folder.write_text("a file where a folder should be")
    study = Study()
    assert study.ask().tolist() == [1, 2, 3]
    assert study.ask().tolist() == [2, 3, 4]
    assert "the result of sums is not kept" in capsys.readouterr().err


def test_a_full_disk_leaves_no_half_result(folder, capsys):
    def full(_found, place: Path):
        (place / "half").write_text("h")
        raise OSError(28, "No space left on device")

    assert kept.kept("sums", KEY, lambda: 7, write=full, read=print) == 7
    assert "No space left" in capsys.readouterr().err
    assert [path.suffix for path in folder.iterdir()] == [".lock"]


def test_what_nobody_asks_for_is_deleted(folder):
    study = Study()
    study.ask()
    (old,) = folder.glob("sums-*")
    moment = time.time() - (kept.DAYS + 1) * 86400
    os.utime(old, (moment, moment))
    study.ask(KEY | {"weights": "c"})
    assert not old.exists()
    (young,) = folder.glob("sums-*")
    os.utime(young, (moment, moment))
    study.ask(KEY | {"weights": "c"})
    study.ask(KEY | {"weights": "d"})
    assert young.exists()


def _one_of_two(log: Path) -> None:
    def compute():
        with log.open("a") as file:
            file.write("computed\n")
        time.sleep(0.5)
        return np.arange(2)

    found = kept.kept(
        "slow",
        KEY,
        compute,
        write=lambda found, place: write_result(place, "x", {"x": found}, {}),
        read=lambda place: read_result(place, "x")[0]["x"],
    )
    with log.open("a") as file:
        file.write(f"has {found.tolist()}\n")


def test_two_processes_compute_once(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_one_of_two, args=(log,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert sorted(log.read_text().splitlines()) == ["computed", "has [0, 1]", "has [0, 1]"]


def test_forgetting_computes_again(folder):
    study = Study()
    study.ask()
    kept.forget()
    assert study.ask().tolist() == [2, 3, 4]


def test_bars_go_to_the_builds_file_and_not_to_the_page(tmp_path, monkeypatch, capsys):
    file = tmp_path / "progress"
    monkeypatch.setenv("LNATTN_PROGRESS", str(file))
    bar = progress.progress_bar(total=3, what="heads of a model", delay=0, mininterval=0)
    for _ in range(3):
        bar.update()
    bar.close()
    progress.say("done")
    lines = file.read_text().splitlines()
    assert any(line.startswith("heads of a model:  67%") for line in lines)
    assert lines[-1] == "[lnattn] done"
    assert all(line == line.strip() for line in lines)
    assert "".join(capsys.readouterr()) == ""


def test_a_quick_job_shows_no_bar(monkeypatch, capsys):
    monkeypatch.delenv("LNATTN_PROGRESS", raising=False)
    assert list(progress.progress_bar(range(1000), "numbers")) == list(range(1000))
    assert "".join(capsys.readouterr()) == ""
    assert list(progress.progress_bar(range(10), "numbers", delay=0, mininterval=0)) == list(
        range(10)
    )
    assert "numbers" in capsys.readouterr().err


def test_verifying_computes_anew_and_keeps_nothing():
    study = Study()
    study.ask()
    with kept.computing_anew():
        assert study.ask().tolist() == [2, 3, 4]
    assert study.ask().tolist() == [1, 2, 3]
