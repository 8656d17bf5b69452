"""The page of the conformance suite: its tables, its sentences, its archive."""

from __future__ import annotations

import zipfile
from types import SimpleNamespace

import pytest

from booksite.downloads import write_suite
from conformance import make, record
from lnattn_book.chapters import conformance as chapter

FALCON = {"eager, asked": 0.0, "sdpa": 0.0, "sdpa, asked": 3.7}


def test_findings_of_one_reason_are_told_once():
    found = chapter.findings(
        {"other": {name: ["wrong", size, "scale"] for name, size in (("a", 0.1), ("b", 0.4))}}
    )
    (row,) = chapter.told(found).to_dict("records")
    assert (row["cases"], row["difference"], row["because"]) == ("a, b", 0.4, "scale")


@pytest.fixture(scope="module")
def columns():
    """What is frozen, and what the page computes itself."""
    frozen = chapter.frozen()["columns"]
    computed = {"eager": "transformers_eager", "lnattn": "lnattn_terms"}
    return {name: frozen[key]["verdicts"] for name, key in chapter.COLUMNS.items()} | {
        name: record.verdicts(record.adapter(adapter)) for name, adapter in computed.items()
    }


def test_what_is_frozen_is_of_the_cases_that_there_are(columns):
    """A new case is compared with transformers; other libraries are asked by who has them."""
    cases = {folder.name for folder in make.FOLDER.iterdir()}
    assert chapter.frozen()["exact"]["cases"] == len(cases)
    for verdicts in columns.values():
        assert set(verdicts) <= cases


def test_counts_findings_and_table():
    columns = {
        "lnattn": {"gpt2": ["right", 2e-16, ""], "t5": ["right", 1e-7, ""]},
        "other": {"gpt2": ["wrong", 0.4, "scale"], "t5": ["not read", None, "no such family"]},
        "older": {"gpt2": ["right", 1e-7, ""]},
    }
    counted = chapter.counts(columns)
    assert counted.loc["lnattn"].to_dict() == {"right": 2, "wrong": 0, "error": 0, "not read": 0}
    assert counted.loc["other"].to_dict() == {"right": 0, "wrong": 1, "error": 0, "not read": 1}
    (row,) = chapter.findings(columns).to_dict("records")
    assert (row["library"], row["case"], row["because"]) == ("other", "gpt2", "scale")
    table = chapter.table(columns, {name: f"{name} 2.0" for name in columns}).data
    assert list(table.columns) == ["lnattn 2.0", "other 2.0", "older 2.0", "what changes a score"]
    assert table.loc["gpt2"].tolist()[:3] == ["✓", "✗", "✓"]
    assert table.loc["t5", "older 2.0"] == ""
    assert table.loc["t5", "other 2.0"] == "–"
    assert "buckets" in table.loc["t5", "what changes a score"]


def test_the_pages_sentences_hold_of_what_is_frozen(columns):
    checks = list(chapter.checks(columns, chapter.frozen(), FALCON))
    assert [check.words for check in checks if not check.holds] == []
    assert len(checks) == 9


def test_a_sentence_fails_where_a_library_is_mended(columns):
    mended = {**columns, "TransformerLens": columns["lnattn"]}
    checks = chapter.checks(mended, chapter.frozen(), {**FALCON, "sdpa, asked": 0.0})
    assert [check.words for check in checks if not check.holds] == [
        "the first logits move with the last token",
        "divides by √d′ where a setting says not to",
        "takes an ε of 1e-5 where a StarCoder2 asks for another",
    ]


def test_the_archive_holds_what_the_check_needs(tmp_path):
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    write_suite(app, None)
    first = (tmp_path / "conformance.zip").read_bytes()
    write_suite(app, None)
    assert (tmp_path / "conformance.zip").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "conformance.zip") as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path)
    assert {"conformance/check.py", "conformance/README.md", "conformance/falcon.md"} <= names
    assert {
        f"conformance/cases/gpt2/{path.name}" for path in (make.FOLDER / "gpt2").iterdir()
    } <= names
    assert not any("pyc" in name for name in names)
    adapters = {name for name in names if name.startswith("conformance/adapters/")}
    assert len(adapters) == 5
    right = record.judge(
        record.adapter("lnattn_terms"), tmp_path / "conformance" / "cases" / "gpt2"
    )
    assert right[2] == "right"
