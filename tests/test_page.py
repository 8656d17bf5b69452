"""The book's helpers: page banner, the model of a chapter, guards."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lnattn.errors import ResultError

page = pytest.importorskip("lnattn_book.page", reason="MyST-NB is absent: pip install .[book]")
guards = pytest.importorskip("lnattn_book.page.guards")

# --- page -------------------------------------------------------------------------------------


def test_the_banner_names_model_reason_weights_versions_and_date(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    layer = SimpleNamespace(
        provenance={"name": "<tiny>", "why": "a test", "weights_sha256": "0123456789abcdef"}
    )
    banner = page.describe(layer)
    shown = banner._repr_html_()
    assert "1970-01-01" in shown
    assert "torch " + torch.__version__.split("+")[0] in shown  # a build may add +cu130
    assert "sha256 0123456789ab…" in shown
    assert "a test" in shown
    assert "&lt;tiny&gt;" in shown
    assert "<tiny>" not in shown


def test_the_first_cell_of_a_chapter_may_name_its_model(monkeypatch):
    monkeypatch.setenv("LNATTN_ROTARY", "")
    monkeypatch.setenv("LNATTN_MODEL", "book-llama")
    chosen = page.choose(None)
    assert chosen.name == "book-gpt2", "a model without six terms goes to chapter 12"
    assert "book-llama has rotary or relative positions" in chosen.why
    named = page.choose("minilm")
    assert (named.name, named.why) == ("minilm", "named in this page's first cell")


# --- guards -----------------------------------------------------------------------------------


def shown(capture) -> list[str]:
    """What guards displayed outside of a notebook: the words for people, a line each."""
    return capture.readouterr().out.splitlines()


def test_a_sentence_that_holds_shows_nothing(capsys):
    page.holds("about one in six", 0.14 < np.float64(0.17) < 0.20)
    page.holds("true of one", np.array([True]))
    page.holds("asked when it is called", lambda: 1 < 2)
    assert shown(capsys) == []


def test_a_sentence_that_no_longer_holds_is_named_and_nothing_stops(capsys):
    share = np.float64(0.31)
    page.holds("about one in six", 0.14 < share < 0.20)
    (line,) = shown(capsys)
    assert "‘about one in six’" in line
    assert "unchanged chapter" in line
    assert "share = 0.31" in line
    assert "0.14 < share < 0.2" in line


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (lambda: {}["head"], "KeyError: 'head'"),
        (np.array([True, True]), "ValueError"),
        (lambda: None, "not asked of this model"),
        (None, "not asked of this model"),
    ],
    ids=["an error", "many truth values", "nothing to ask", "nothing"],
)
def test_no_condition_stops_a_reader(capsys, condition, found):
    page.holds("of each", condition)
    (line,) = shown(capsys)
    assert "‘of each’" in line
    assert found in line


def test_a_guard_reads_its_condition_and_the_values_in_it():
    sizes, names = {"a": 0.25, "b": 0.5}, "ab"
    many = np.arange(10.0)
    guard = ask("x", all(0.2 < sizes[name] < 0.6 for name in names) and not many.max() < 3)
    assert "not many.max() < 3" in guard.asked
    assert guard.found == "sizes[name] = 0.25, 0.5, many.max() = 9"
    assert ask("x", lambda: (many > 4).any()).found == "many = 10 values from 0 to 9"
    assert (
        ask("x", len(names) == 2 and sizes["a"] < 1 / 3).found
        == "len(names) = 2, sizes['a'] = 0.25"
    )
    assert [ask("x", flag).found for flag in (True,)] == [""]  # nothing is compared


def ask(sentence, condition):
    """As `page.holds`, but the guard itself."""
    return guards.ask(sentence, condition, inspect.currentframe())


def test_a_build_records_every_guard_and_a_reader_sees_those_that_fail(monkeypatch):
    kept = []
    monkeypatch.setattr(guards, "display", lambda one: kept.append(one._repr_mimebundle_()))
    monkeypatch.setenv(guards.RECORDING, "record")
    for value in (1, 3):
        page.holds("about one", value < 2)
    good, bad = kept
    record = {"sentence": "about one", "asked": "value < 2", "found": "value = 1", "holds": True}
    assert good == {guards.MIME: record}
    assert bad[guards.MIME]["holds"] is False
    assert "value = 3" in bad["text/plain"]
    notebook = {"cells": [{"outputs": [{"data": data} for data in kept]}, {}]}
    assert [(one.found, one.holds) for one in guards.read(notebook)] == [
        ("value = 1", True),
        ("value = 3", False),
    ]


def test_what_a_model_lacks_ends_a_block_and_not_the_chapter(monkeypatch, capsys):
    with page.asking("heads of a second layer"):
        raise ResultError("tiny has one layer.")
    assert shown(capsys) == [
        "Heads of a second layer cannot be asked of this model: tiny has one layer."
    ]
    kept = []
    monkeypatch.setattr(guards, "display", lambda one: kept.append(one.guard.holds))
    for error in (ResultError("no."), IndexError("3")):
        with page.asking("anything"):
            raise error
    assert kept == [None, False], "a lack is no fault; a mistake in the code is one"
    with pytest.raises(KeyboardInterrupt), page.asking("anything"):
        raise KeyboardInterrupt
