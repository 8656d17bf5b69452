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
from lnattn.paths import repository
from lnattn_book.style import TERM_NAMES

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


def test_each_term_has_its_name_from_the_one_table() -> None:
    notes = glossary.glossary(repository() / glossary.FILE)
    for term, name in TERM_NAMES.items():
        symbol = glossary.plain(f"T^{{{term}}}")
        assert notes[symbol].startswith(f"{name}: ")
    text = (repository() / glossary.FILE).read_text("utf-8")
    assert not any(name in text for name in TERM_NAMES.values())


def test_formulas_of_the_book_have_notes() -> None:
    """Else a change of notation could leave the glossary without a reader."""
    notes = glossary.glossary(repository() / glossary.FILE)
    pages = (repository() / "notebooks").glob("*.md")
    text = "".join(path.read_text("utf-8") for path in pages)
    written = {glossary.plain(tex) for tex in re.findall(r"\$([^$\n]+)\$", text)}
    unused = notes.keys() - written
    assert len(unused) < len(notes) / 2, unused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {tex: [a], term: xx, words: b}", "no term 'xx'"),
        ("- {tex: [a, ' {a}'], words: b}", "two"),
    ],
)
def test_a_wrong_glossary_is_one_sentence(tmp_path, text, said) -> None:
    (tmp_path / "g.yml").write_text(text)
    with pytest.raises(ResultError, match=said):
        glossary.glossary(tmp_path / "g.yml")


def test_notes_are_put_on_symbols_alone(tmp_path) -> None:
    pages = {
        glossary.FILE.as_posix(): FILE,
        "index.md": PAGE,
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
    assert "data-note" not in (out / "book" / "notation.html").read_text("utf-8")
    assert not warnings
