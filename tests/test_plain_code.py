"""The page of 400 lines: the whole file, a place for each function, and links that count lines."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("myst_parser", reason="the book's tools are absent: pip install .[book]")

from bs4 import BeautifulSoup
from small_site import build

from booksite.plain_code import SOURCE, label, pieces

SMALL = '''"""A file."""

# ==== 1. A part ====


# a = b
# of two lines
def first(x):  # [n]
    return x


class Between: ...


def second(x):
    return x
'''


def test_functions_are_cut_above_their_formulas() -> None:
    before, first, second = pieces(SMALL)
    assert before.name is None
    assert (first.name, first.first, first.lines) == ("first", 6, 4)
    assert first.text.startswith("# a = b")
    assert "class Between" in first.text, "what follows a function stays with it"
    assert (second.name, second.first, second.lines) == ("second", 15, 2)


def test_a_file_may_begin_with_a_formula_or_a_function() -> None:
    (only,) = pieces("# a = b\ndef f(x):\n    return x\n# end")
    assert only == ("f", 1, "# a = b\ndef f(x):\n    return x\n# end", 3)
    assert [piece.name for piece in pieces("def f(): ...\ndef g(): ...")] == ["f", "g"]


def test_the_pieces_are_the_whole_file() -> None:
    source = SOURCE.read_text("utf-8")
    found = list(pieces(source))
    assert "\n".join(piece.text for piece in found) == source.rstrip("\n")
    written = [one.name for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
    assert [piece.name for piece in found if piece.name] == written
    for piece in found:
        assert source.splitlines()[piece.first - 1] == piece.text.splitlines()[0]


def test_a_link_leads_to_its_function_and_counts_its_lines(tmp_path) -> None:
    pages = {
        "index.md": "# Start\n\n```{toctree}\nplain\n```\n\n({plain}`fold`), {plain}`nothing`\n",
        "plain.md": "# All\n\n```{plain-code}\n```\n",
    }
    out, warnings, _ = build(tmp_path, pages, extensions=["myst_parser", "booksite.plain_code"])
    page = BeautifulSoup((out / "index.html").read_text("utf-8"), "html.parser")
    (link,) = page.select('a[href="plain.html#plain-fold"]')
    (fold,) = (piece for piece in pieces(SOURCE.read_text("utf-8")) if piece.name == "fold")
    assert link.text == f"fold, {fold.lines} lines"
    assert "has no function 'nothing'; name one of it" in warnings
    whole = BeautifulSoup((out / "plain.html").read_text("utf-8"), "html.parser")
    assert whole.find(id=label("six_terms"))
    place = whole.find(id=label("fold"))
    assert int(place.find_next("span", class_="linenos").text) == fold.first


def test_a_link_to_a_page_that_is_left_out_is_a_warning(tmp_path) -> None:
    pages = {"index.md": "# Start\n\n{plain}`fold`\n"}
    _, warnings, _ = build(tmp_path, pages, extensions=["myst_parser", "booksite.plain_code"])
    assert label("fold") in warnings
