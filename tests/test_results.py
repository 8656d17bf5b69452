"""Every frozen file has a reader, and names the command that makes it again."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

from lnattn.cli.main import COMMANDS, main
from lnattn.paths import data_folder
from lnattn_book.frozen.kinds import command_of, name_command, read_all

RESULTS = data_folder() / "results"


def test_everything_that_is_frozen_is_read_and_names_its_command():
    found = list(read_all(RESULTS))
    assert len(found) > 40
    assert [(path.name, wrong) for path, wrong in found if wrong] == []


def test_commands_are_those_of_the_command_line_or_of_make():
    makefile = (RESULTS.parents[1] / "Makefile").read_text()
    for path in RESULTS.rglob("*.json"):
        words = command_of(path).split()
        program, task, *more = words[1:] if words[0].startswith("LNATTN_QUERIES=") else words
        if program == "python":
            module = find_spec(more[0])
            is_package = module is not None and module.submodule_search_locations is not None
            assert find_spec(f"{more[0]}.__main__") if is_package else module, path
        else:
            assert task in (COMMANDS if program == "lnattn" else makefile), path


def test_a_survey_of_some_query_tokens_says_how_many(tmp_path):
    path = tmp_path / "tiny" / "survey.json"
    path.parent.mkdir()
    path.write_text('{"queries": 400}')
    assert command_of(path).startswith("LNATTN_QUERIES=400 python -m lnattn_book freeze tiny ")
    path.write_text("{}")
    assert command_of(path).startswith("python -m lnattn_book freeze tiny ")


def test_stray_damaged_and_misnamed_files_are_told(tmp_path, capsys):
    shutil.copytree(RESULTS / "book-gpt2", tmp_path / "tiny")
    (tmp_path / "tiny" / "notes.txt").write_text("?")
    (tmp_path / "tiny" / "orphan.npz").write_bytes(b"")
    whole = (tmp_path / "tiny" / "survey.npz").read_bytes()
    (tmp_path / "tiny" / "survey.npz").write_bytes(whole[:50])
    wrong = {path.name: why for path, why in read_all(tmp_path)}
    assert "belongs to no study" in wrong["notes.txt"]
    assert "belongs to no study" in wrong["orphan.npz"]
    assert "cannot be read" in wrong["survey.json"]
    assert "another command" in wrong["detokenization.json"]
    name_command(tmp_path / "tiny" / "detokenization.json")
    record = json.loads((tmp_path / "tiny" / "detokenization.json").read_text())
    assert record["command"] == "python -m lnattn_book freeze tiny --only detokenization"
    assert main(["verify", "--folder", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "tiny/survey.json: damaged" in shown
    assert "tiny/notes.txt: damaged" in shown
    assert "tiny/orphan.npz: damaged" in shown
    assert (
        "tiny/detokenization.json: whole; python -m lnattn_book freeze tiny --only detokenization"
        in shown
    )
