"""Marks at checked sentences, warnings of those that do not hold, and numbers without a check."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from docutils import nodes
from small_site import build

from booksite import checks
from lnattn_book.page.checks import Check, CheckTable

PAGE = """# A page

:::{opening}
Does it hold?

It lifts *New* by 4 nats & more. It is so.

It matters.
:::

It lifts by the model's
own 4.1, as $x$ **falls below a third**. Another 7 of 8 and [chapter 9](#end), says GPT-2.

A second paragraph says that it falls below a third, with $y = 3$.

(end)=
## In short

- "It ends" here, with $x + 5$
"""
FOUND = (
    Check("lifts New by 4 nats & more", "4.1", True),
    Check("by the model's own 4.1", "4.12", True),
    Check("as … a third", "0.6", False),
    Check("with $y = 3$".replace("$", ""), "3", True),
    Check('"it ends" here', "so", True),
    Check("words that stand nowhere", "so", True),
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    _, metadata = CheckTable(FOUND)._repr_mimebundle_()
    cell = {"cell_type": "code", "metadata": {}, "source": [], "outputs": [{"metadata": metadata}]}
    monkeypatch.setattr(checks, "executed_notebook", lambda _app, _page: {"cells": [cell]})
    out, warnings, app = build(
        tmp_path,
        {"index.md": PAGE},
        extensions=["myst_parser", "booksite.checks", "booksite.opening"],
        myst_enable_extensions=["dollarmath", "colon_fence"],
    )
    return SimpleNamespace(text=(out / "index.html").read_text("utf-8"), said=warnings, app=app)


def marked(text: str) -> str:
    """A page's text with a ✓ or ✗ where a mark stands, and nothing of its notes."""
    plain = re.sub(r"<span popover.*?</span></span>", "", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", plain).split())


def test_a_mark_stands_at_the_end_of_its_sentence_one_for_all_that_is_checked_there(page):
    text = marked(page.text)
    assert "nats &amp; more.✓ It is so." in text
    assert "below a third.✗ Another 7 of 8" in text, "two checks, of which one fails"
    assert re.search(r"here, with \S*x \+ 5\S*✓", text), "behind a formula that ends the page"
    assert text.count("✓") == 3
    assert text.count("✗") == 1


def test_only_answer_and_summary_show_their_marks_without_the_switch(page):
    kinds = re.findall(r'<button type="button" class="([^"]+)"', page.text)
    assert kinds == ["check", "check check-fails check-more", "check check-more", "check"]
    assert "show all checks (2 more)" in page.text
    title, switch = page.text.index("<h1>"), page.text.index("checks-switch")
    assert title < switch < page.text.index("Does it hold?")


def test_a_mark_opens_what_was_found(page):
    (name,) = re.findall(r'check-fails[^>]* popovertarget="([^"]+)"', page.text)
    note = re.search(rf'<span popover id="{name}".*?</span></span>', page.text, re.DOTALL)[0]
    assert "✓ ‘by the model&#x27;s own 4.1’: 4.12" in note
    assert "✗ ‘as … a third’: 0.6" in note
    assert "<details" not in page.text, "it would end the paragraph"


def test_what_does_not_hold_or_stands_nowhere_is_a_warning(page):
    failing, absent = re.findall(".*WARNING.*", str(page.said))
    assert "The page says ‘as … a third’; it finds 0.6." in failing
    assert "No sentence of the page says ‘words that stand nowhere’" in absent


def test_numbers_that_no_check_holds_are_named(page, monkeypatch):
    told = []
    monkeypatch.setattr(checks._LOGGER, "info", told.append)
    checks.tell(page.app, ValueError())
    assert told == []
    checks.tell(page.app, None)
    assert told == [
        "6 sentences are checked",
        "index: 2 numbers stand in no checked sentence: 7, 8",
    ], "numbers of links, formulas and names are none"


def test_the_folded_cell_says_how_many_sentences_hold():
    _, metadata = CheckTable(FOUND)._repr_mimebundle_()
    notebook = {"cells": [{}, {"outputs": [{"metadata": metadata}]}]}
    cells = [nodes.container("", nb_element="cell_code", cell_index=index) for index in (0, 1)]
    page = nodes.section("", *cells)
    checks.fold_table(page, notebook)
    assert "prompt_show" not in cells[0]
    assert cells[1]["hide_mode"] == "all"
    assert cells[1]["prompt_show"] == "Checked on this page: 5 of 6 sentences hold"
