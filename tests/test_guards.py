"""Marks at checked sentences, and warnings of those that do not hold."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from small_site import build

from booksite import guards
from lnattn_book.page.guards import MIME, Guard

PAGE = """# A page

It lifts *New* by four & more, as the model's
own says, and $x$ **falls below a third**. Nothing else.

A second paragraph says that it falls below a third.

"It ends" here
"""
FOUND = [
    Guard("lifts New by four & more", "3.8 < lift", "lift = 4.1", True),
    Guard("falls … a third", "x < 1 / 3", "x = 0.6", False),
    Guard("as the model's own says", "1 < 2", "", True),
    Guard("words that stand nowhere", "True", "", True),
    Guard("Nothing else", "", "not asked of this model", None),
    Guard('"it ends" here', "", "", True),
]


@pytest.fixture
def page(tmp_path, monkeypatch):
    outputs = [{"data": {MIME: asdict(guard)}} for guard in FOUND]
    cell = {"cell_type": "code", "metadata": {}, "source": ["found"], "outputs": outputs}
    monkeypatch.setattr(guards, "executed_notebook", lambda _app, _page: {"cells": [cell]})
    out, warnings, _ = build(
        tmp_path,
        {"index.md": PAGE},
        extensions=["myst_parser", "booksite.guards"],
        myst_enable_extensions=["dollarmath"],
    )
    return (out / "index.html").read_text("utf-8"), warnings


def test_a_mark_stands_behind_the_words_that_are_checked(page) -> None:
    text, _ = page
    plain = re.sub(r"<span popover.*?</span></span>", "", text, flags=re.DOTALL)
    plain = re.sub(r"<(?!button)[^>]+>", "", re.sub(r"<button[^>]*>", "<button>", plain))
    assert "by four &amp; more,<button>✓" in plain
    assert "own says,<button>✓ and" in plain
    assert "falls below a third.<button>✗ Nothing" in plain
    assert re.search("ends.* here<button>✓", plain), "the last word of a page"
    assert plain.count("<button>") == 4, "one mark each, none at words that are not there"
    held = re.findall(r'<span class="guarded">(.*?)<button', text)
    assert held == ["more,", "says,", ".", "here"], (
        "each with the word before it; the point follows a bold one"
    )


def test_a_mark_opens_what_was_asked_and_found(page) -> None:
    text, _ = page
    (name,) = re.findall(r'guard-fails" popovertarget="([^"]+)"', text)
    note = re.search(rf'<span popover id="{name}".*?</span></span>', text, re.DOTALL)[0]
    assert "asked: <code>x &lt; 1 / 3</code>" in note
    assert "found: x = 0.6" in note
    assert "<details" not in text, "it would end the paragraph"


def test_a_sentence_that_does_not_hold_is_a_warning(page) -> None:
    _, warnings = page
    (line,) = re.findall(".*WARNING.*", str(warnings))
    assert "falls … a third" in line
    assert "x = 0.6" in line


def test_the_build_says_how_many_sentences_are_checked_and_marked(monkeypatch):
    told = []
    monkeypatch.setattr(guards._LOGGER, "info", told.append)
    pages = {
        "a": {guards.COUNTS: (3, 2), guards.BOUND: Counter({"open": 2, "removed": 1})},
        "b": {guards.COUNTS: (1, 1), guards.BOUND: Counter({"folded": 1})},
        "c": {},
    }
    for metadata, error in ((pages, ValueError()), ({"c": {}}, None), (pages, None)):
        guards.tell(SimpleNamespace(env=SimpleNamespace(metadata=metadata)), error)
    assert told == [
        "4 sentences are checked, 3 of them with a mark at the words",
        "of 4 checked sentences 3 (75%) follow from code on their page: 2 from open cells alone",
    ]
