"""The command line: its forms, its errors in one sentence, and where it may write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from random_models import random_gpt2

from lnattn import freezing
from lnattn.cli.main import COMMANDS, main
from lnattn.paths import cache_folder
from lnattn.storage import read_json
from lnattn_book.__main__ import main as command_of_the_book


def test_freezing_and_verifying(tmp_path, capsys):
    def printed(*arguments: str) -> tuple[int, Any]:
        status = main([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    folder = tmp_path / "model"
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(folder)
    out = str(tmp_path / "results")
    status, record = printed("freeze", str(folder), "--out", out, "--only", "position")
    assert (status, record) == (0, {"position": f"{out}/position.json"})
    assert printed("verify", str(folder), "--folder", out) == (0, {"position": []})
    (tmp_path / "results" / "stray.txt").write_text("?")
    status, record = printed("verify", "--folder", str(tmp_path))
    assert status == 1
    wrong = {name for name, differences in record.items() if differences}
    assert "results/stray.txt" in wrong
    assert "results/position.json" in record.keys() - wrong


def test_an_installed_package_writes_no_results_into_itself(tmp_path, monkeypatch, capsys):
    installed = Path(freezing.__file__).parent / "data"
    monkeypatch.setattr(freezing, "data_folder", lambda: installed)
    assert main(["freeze", "book-gpt2", "--only", "position"]) == 1
    assert "give --out FOLDER" in capsys.readouterr().err
    assert not (installed / "results").exists()


def test_results_of_another_name_lie_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(freezing, "data_folder", lambda: tmp_path)
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(tmp_path / "model")
    asked = ["freeze", str(tmp_path / "model"), "--only", "position"]
    assert main(asked) == 0
    own = {path.name: path.read_bytes() for path in (tmp_path / "results" / "model").iterdir()}
    random_gpt2(seed=4, vocab=20, context=16).float().save_pretrained(tmp_path / "model")
    assert main([*asked, "--as", "other"]) == 0
    after = {path.name: path.read_bytes() for path in (tmp_path / "results" / "model").iterdir()}
    assert own == after
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["model", "other"]
    assert (tmp_path / "results" / "other" / "position.npz").read_bytes() != own["position.npz"]


def test_freezing_writes_over_results_only(tmp_path, capsys):
    folder = tmp_path / "model"
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(folder)
    out = tmp_path / "out"
    out.mkdir()
    (out / "position.json").write_text('{"my": "own"}')
    assert main(["freeze", str(folder), "--out", str(out), "--only", "position"]) == 1
    assert "is there and is no result of lnattn" in capsys.readouterr().err
    assert (out / "position.json").read_text() == '{"my": "own"}'
    (out / "position.json").unlink()
    for _ in range(2):
        assert main(["freeze", str(folder), "--out", str(out), "--only", "position"]) == 0
    assert read_json(out / "position.json")["command"] == "lnattn freeze out --only position"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_cache_folder_of_the_system_is_absolute(value, monkeypatch):
    monkeypatch.delenv("LNATTN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == Path.home() / ".cache" / "lnattn"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert cache_folder() == Path("/var/caches/lnattn")


def test_the_commands_of_a_clone_know_the_books_studies(capsys):
    """Without them the package's own commands know only what weights suffice for."""
    assert command_of_the_book(["--help"]) == 0
    assert "Studies of the book: detokenization, contribution" in capsys.readouterr().out
    assert command_of_the_book(["models"]) == 2
    assert "knows freeze and verify" in capsys.readouterr().err
    script = "import lnattn.freezing as f; print(*f.STUDIES)"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["position", "composition", "selectability-positions"]


#: All helps in one process, since to start it takes longest.
_HELPS = """
import sys
from contextlib import suppress
from lnattn.cli.main import COMMANDS, main
for words in ([], *([name] for name in COMMANDS)):
    with suppress(SystemExit):
        main([*words, "--help"])
"""


def test_help_on_a_terminal_in_ascii():
    """The overview has a '·', other texts an ε or a quotation mark."""
    env = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "200"}
    ran = subprocess.run([sys.executable, "-c", _HELPS], env=env, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    said = re.findall(r"^usage: lnattn ?(\w*)", ran.stdout.decode("ascii"), re.MULTILINE)
    assert said == ["", *COMMANDS]


def test_json_is_whole_where_the_output_is_no_utf_8(capsys):
    words = ["affinity", "book-gpt2", " city", "--head", "0", "--top", "50", "--json"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "lnattn", *words]
    ran = subprocess.run(program, env=env, capture_output=True, check=True)
    assert json.loads(ran.stdout.decode("ascii")) == json.loads(printed)


def test_an_error_with_letters_on_a_terminal_in_ascii():
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "lnattn", "affinity", "küche", "a"]
    ran = subprocess.run(program, env=env, capture_output=True)
    assert ran.returncode == 1
    assert b"Traceback" not in ran.stderr
    assert b"there is no model" in ran.stderr
