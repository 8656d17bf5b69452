"""The tool that puts mistakes into the code: which files, which tests, which line."""

from __future__ import annotations

import os
from pathlib import Path

import mutants
import pytest


def test_a_module_is_a_folder_or_a_file_of_the_package_or_the_book():
    assert mutants.sources("stats") == [Path("src/lnattn/stats.py")]
    assert Path("src/lnattn/attention/terms.py") in mutants.sources("attention")
    assert Path("src/lnattn_book/claims/rules.py") in mutants.sources("claims")
    site = mutants.sources("booksite")
    assert Path("src/booksite/extent.py") in site
    assert all(path.parts[1] == "booksite" for path in site)
    assert Path("tests/test_extent.py") in mutants.candidates("booksite")
    with pytest.raises(SystemExit, match="nowhere"):
        mutants.sources("nowhere")
    assert all(mutants.sources(module) for module in mutants.SCIENCE)


def test_tests_are_candidates_by_the_room_or_by_a_public_name_that_lives_there():
    assert Path("tests/test_stats.py") in mutants.candidates("stats")
    names = mutants.candidates("attention")  # `from lnattn import fold`, alone
    assert Path("tests/test_front_page.py") not in names, "minutes, for each mutant"
    assert Path("tests/test_terms.py") in names
    assert Path("tests/test_majority_task.py") not in names


def test_the_line_that_differs_is_named_and_annotations_are_left_out():
    before = "def f(x: int | None = 3) -> int:\n    return x + 1\n"
    after = before.replace("+ 1", "- 1")
    assert mutants.changed(before, after) == ("return x + 1", "return x - 1")
    places = mutants.annotated_lines(before)
    assert (1, before.index("|")) in places
    assert (1, before.index("3")) not in places
    assert (2, 13) not in places


def test_what_runs_in_a_fork_ends_with_its_status_or_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "WORK", tmp_path)
    assert mutants.in_fork(lambda: 3) == 3
    assert mutants.in_fork(lambda: 0) == 0
    assert mutants.in_fork(lambda: 1 // 0) == 70
    assert mutants.in_fork(lambda: os.read(os.pipe()[0], 1), seconds=1) == 124


def test_every_listed_survivor_has_a_reason():
    for mutant, why in mutants.reasons().items():
        assert why.startswith(("equivalent: ", "missing: ")), mutant
    assert mutants.LISTED.is_file()
