"""Every frozen file names its kind, by which it is read, and the command that makes it again."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import pytest

from lnattn.cli.main import COMMANDS, main
from lnattn.errors import ResultError
from lnattn.freezing import STUDIES
from lnattn.paths import data_folder
from lnattn.storage import read_json
from lnattn_book.frozen.kinds import READERS, read, read_all, sign

RESULTS = data_folder() / "results"


def test_everything_that_is_frozen_is_read_by_its_kind():
    found = list(read_all(RESULTS))
    assert len(found) > 40
    assert [(path.name, wrong) for path, wrong in found if wrong] == []


def test_every_kind_is_one_of_a_study_or_of_a_frozen_file():
    """And every study that is frozen has a reader; a reader of nothing would go."""
    frozen = {read_json(path)["kind"] for path in RESULTS.rglob("*.json")}
    assert set(STUDIES) <= set(READERS)
    assert set(READERS) == frozen | set(STUDIES)


def test_commands_are_those_of_the_command_line_or_of_make():
    makefile = (RESULTS.parents[1] / "Makefile").read_text()
    for path in RESULTS.rglob("*.json"):
        words = read_json(path)["command"].split()
        program, task, *more = words[1:] if words[0].startswith("LNATTN_QUERIES=") else words
        if program == "python":
            module = find_spec(more[0])
            is_package = module is not None and module.submodule_search_locations is not None
            assert find_spec(f"{more[0]}.__main__") if is_package else module, path
        else:
            assert task in (COMMANDS if program == "lnattn" else makefile), path


def test_stray_damaged_and_misnamed_files_are_told(tmp_path, capsys):
    shutil.copytree(RESULTS / "book-gpt2", tmp_path / "tiny")
    (tmp_path / "tiny" / "notes.txt").write_text("?")
    (tmp_path / "tiny" / "orphan.npz").write_bytes(b"")
    whole = (tmp_path / "tiny" / "survey.npz").read_bytes()
    (tmp_path / "tiny" / "survey.npz").write_bytes(whole[:50])
    (tmp_path / "tiny" / "sigma.json").write_text('{"kind": "unheard of", "command": "make"}')
    wrong = {path.name: why for path, why in read_all(tmp_path)}
    assert "belongs to no frozen result" in wrong["notes.txt"]
    assert "belongs to no frozen result" in wrong["orphan.npz"]
    assert "cannot be read" in wrong["survey.json"]
    assert "names no kind that this book freezes" in wrong["sigma.json"]
    assert "freezes another folder's" in wrong["detokenization.json"]
    command = "python -m lnattn_book freeze tiny --only detokenization"
    path = sign(tmp_path / "tiny" / "detokenization.json", "detokenization", command)
    read(path)
    assert json.loads(path.read_text())["command"] == command
    assert main(["verify", "--folder", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "tiny/survey.json: damaged" in shown
    assert "tiny/notes.txt: damaged" in shown
    assert "tiny/orphan.npz: damaged" in shown
    assert f"tiny/detokenization.json: whole; {command}" in shown


def test_a_record_without_a_command_is_told(tmp_path):
    (tmp_path / "claims.json").write_text('{"kind": "claims"}')
    with pytest.raises(ResultError, match="no command that makes it"):
        read(tmp_path / "claims.json")
