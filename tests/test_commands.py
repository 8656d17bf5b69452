"""Every command that prints a table prints it as CSV too, and says there what its JSON says."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from random_models import random_gpt2

from lnattn.cli import COMMANDS, main, run

#: What prints one record, which is no table.
WITHOUT = {"count", "doctor", "train-book-model"}


@pytest.fixture
def printed(capsys):
    """Runs a command twice, and returns its exit status, the rows of its CSV, and its JSON."""

    def run(*arguments: str) -> tuple[int, list[dict[str, str]], object]:
        status = main([*arguments, "--csv"])
        rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
        assert main([*arguments, "--json"]) == status
        return status, rows, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_every_table_has_both_forms(command, capsys):
    run(f"lnattn {command} --help")
    shown = capsys.readouterr().out
    assert "--json" in shown
    assert ("--csv" in shown) == (command not in WITHOUT)


def test_a_page_shows_what_is_typed_and_how_it_ends(capsys):
    run("lnattn claims 'K 99'")
    shown = capsys.readouterr()
    assert "K 99" in shown.out
    assert shown.out.endswith("exit code 1\n")
    run("lnattn models --csv --json")
    assert "not allowed with" in capsys.readouterr().out
    run("lnattn models --csv")
    shown = capsys.readouterr()
    assert "exit code" not in shown.out
    assert not shown.err


def test_the_forms_exclude_one_another(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["models", "--json", "--csv"])
    assert stopped.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_models(printed):
    status, rows, record = printed("models")
    assert status == 0
    assert [row["name"] for row in rows] == [row["name"] for row in record["models"]]
    assert rows[0]["revision"] == ""
    assert [row["frozen"].split("; ") for row in rows if row["frozen"]] == [
        row["frozen"] for row in record["models"] if row["frozen"]
    ]


def test_claims(printed, tmp_path, monkeypatch):
    monkeypatch.setenv("LNATTN_LEDGER", str(tmp_path))
    from lnattn.claims.ledger import register
    from lnattn.claims.verdicts import Verdict

    for model in ("one", "two, and more"):
        register(Verdict("K5", model, "fails", f'head 3 of "{model}"', "A rule."))
    status, rows, record = printed("claims", "K5", "K6")
    assert status == 0
    assert [row["id"] for row in rows] == ["K5", "K5", "K6"]
    found = record[0]["found"]
    assert [row["model"] for row in rows] == [*(one["model"] for one in found), ""]
    assert [row["reproduced"] for row in rows[:2]] == [one["reproduced"] for one in found]
    assert rows[2]["statement"] == record[1]["statement"]


def test_short_runs_of_majority(printed):
    sizes = ["--examples", "200", "--batch", "50", "--epochs", "2", "--d-model", "3", "--quiet"]
    status, rows, record = printed("majority", *sizes, "--seeds", "1", "--arms", "rms", "layernorm")
    assert status == 0
    assert [row["arm"] for row in rows] == ["rms", "layernorm"]
    for row, found in zip(rows, record, strict=True):
        assert float(row["loss"]) == pytest.approx(found["loss"], rel=1e-6)


def test_verdicts_on_keys(printed, tmp_path):
    np.save(tmp_path / "keys.npy", np.array([[0.0, 0], [1, 0], [0, 1], [0.2, 0.2]]))
    status, rows, record = printed("selectable", "keys", str(tmp_path / "keys.npy"))
    assert status == 0
    kept = [int(row["key"]) for row in rows if row["selectable"] == "0"]
    assert kept == record["unselectable"] == [3]
    assert all(row["method"] in record["methods"] for row in rows)
    assert main(["selectable", "lengths", "files", "--csv"]) == 1


def test_freezing_and_verifying(printed, tmp_path):
    folder = tmp_path / "model"
    random_gpt2(seed=3, vocab=20, context=16).float().save_pretrained(folder)
    out = str(tmp_path / "results")
    status, rows, record = printed("freeze", str(folder), "--out", out, "--only", "position")
    assert status == 0
    assert {row["study"]: row["file"] for row in rows} == record
    status, rows, record = printed("verify", str(folder), "--folder", out)
    assert status == 0
    assert [(row["name"], row["words"], row["differences"]) for row in rows] == [
        ("position", "agrees", "")
    ]
    (tmp_path / "results" / "stray.txt").write_text("?")
    status, rows, record = printed("verify", "--folder", str(tmp_path))
    assert status == 1
    assert {row["name"]: row["differences"] for row in rows} == {
        name: "; ".join(wrong) for name, wrong in record.items()
    }
