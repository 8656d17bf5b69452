"""Symbols say what they mean: the glossary's file, and the notes on a page."""

from __future__ import annotations

import html
import re

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
pytest.importorskip("myst_parser", reason="MyST is not installed; pip install -e '.[book]'")
from small_site import build

from booksite import glossary
from lnattn.errors import ResultError
from lnattn_book.page.places import repository

FILE = """
- tex: ['T^{ee}', "d'"]
  term: ee
  words: a "note" & $e_i < 1$
"""
PAGE = """# A page with $T^{ee}$

Plain $T^{ ee }$, [a link $T^{ee}$](https://example.org), $T^{ee} + 1$ and $d'$.
"""


def test_every_symbol_of_the_glossary_is_defined_on_the_page_of_notation() -> None:
    """Or is part of what is: `T^{ee}_{ij}` of `T^{ee}`."""
    page = (repository() / "book" / "notation.md").read_text("utf-8")
    defined = glossary.plain(" ".join(re.findall(r"\$([^$]+)\$", page)))
    notes = glossary.glossary(repository() / glossary.FILE)
    assert len(notes) > 40
    for symbol in notes:
        stem = re.split(r"_|\(|=|\+", symbol)[0]
        assert stem.removeprefix("1/") in defined, symbol


def test_notes_are_put_on_symbols_alone(tmp_path) -> None:
    pages = {
        glossary.FILE.as_posix(): FILE,
        "index.md": PAGE,
        "appendix.md": "---\norphan: true\n---\n# First\n\n$x$, $d'$\n",
        "book/notation.md": "---\norphan: true\n---\n# Notation\n\n$T^{ee}$\n",
    }
    out, warnings, _ = build(
        tmp_path,
        pages,
        extensions=["myst_parser", "booksite.glossary"],
        myst_enable_extensions=["dollarmath"],
    )
    page = (out / "index.html").read_text("utf-8")
    notes = [html.unescape(note) for note in re.findall('data-note="([^"]*)"', page)]
    assert notes == ['token → token: a "note" & \\(e_i < 1\\)'] * 2
    assert re.search(
        r'class="symbol"[^>]*><span class="math[^>]*>\\\(T\^\{ ee \}\\\)</span></span>', page
    )
    assert (out / "appendix.html").read_text("utf-8").count("data-note") == 1
    assert "data-note" not in (out / "book" / "notation.html").read_text("utf-8")
    assert not warnings


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("- {tex: [a], words: x, term: none}", "there is no term 'none'"),
        ("- {tex: [a], words: x}\n- {tex: ['{a}'], words: y}", "a has two notes"),
    ],
)
def test_a_symbol_with_two_notes_or_of_no_term_is_refused(tmp_path, entries, problem):
    path = tmp_path / "glossary.yml"
    path.write_text(entries)
    with pytest.raises(ResultError, match=problem):
        glossary.glossary(path)
