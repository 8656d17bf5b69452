"""Columns of numbers are found in tables of all makes, and nothing else is changed."""

from __future__ import annotations

import pandas as pd
import pytest
from bs4 import BeautifulSoup

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.numbers import CLASS, aligned, is_number

FRAME = pd.DataFrame(
    {
        "token": ["a", "2"],
        "score": [-1.5, 2345.0],
        "share": ["12 %", "3.1 %"],
        "range": ["1.2× – 3×", "–"],
    },
    index=pd.Index(["x", "y"], name="head"),
)


def marked(html: str) -> list[str]:
    """The texts of the cells with the class."""
    return [
        cell.get_text().strip() for cell in BeautifulSoup(html, "html.parser").select(f".{CLASS}")
    ]


@pytest.mark.parametrize("text", [
    "0", "-1.5", "−0.3", "1,234.50", "3.1 %", "46×", "5e-15", "1.6e+04 s", "12 ms", "~ 7",
    "0.2 ± 0.1", "1.0 – 2.5", "59× – 66×", "(0.1, 0.2)", "3 to 5",
])  # fmt: skip
def test_numbers(text):
    assert is_number(text)


@pytest.mark.parametrize(
    "text", ["", "–", "head 3", "K5", "2 of 3 heads", "book-gpt2", "1.2.x y z"]
)
def test_other_texts(text):
    assert not is_number(text)


@pytest.mark.parametrize("html", [FRAME.to_html(), FRAME.style.format(precision=1).to_html()])
def test_columns_of_a_frame_plain_or_styled(html):
    found = marked(aligned(f"<p>1</p>{html}<p>2</p>"))
    assert len(found) == 3 * 4  # the name, the row below it that names the index, two cells
    assert {"score", "share", "range"} <= set(found)
    assert not {"token", "a", "2", "head"} & set(found)
    assert {"12 %", "3.1 %", "1.2× – 3×", "–"} <= set(found)


def test_a_table_without_numbers_keeps_its_bytes():
    html = "<table class='x'><tr><th>a<td>b</table><p>3"
    assert aligned(html) == html
    plain = FRAME[["token"]].to_html()
    assert aligned(plain) == plain
    nested = "<table><tr><td><table><tr><td>1</td></tr></table></td></tr></table>"
    assert aligned(nested) == nested


def test_a_head_over_several_columns_stays_where_it_is():
    html = (
        "<table><tr><th></th><th colspan=2>both</th><th>last</th></tr>"
        "<tr><th></th><th>one</th><th>two</th><th>three</th></tr>"
        "<tr><th>r</th><td>1</td><td>x</td><td>5</td></tr></table>"
    )
    assert marked(aligned(html)) == ["last", "one", "three", "1", "5"]


def test_cells_that_span_rows_keep_their_columns():
    frame = pd.DataFrame(
        {"score": [0.5, 1.5, 2.5], "what": ["a", "b", "c"], "z": [178.4, 3.0, 4.0]},
        index=pd.MultiIndex.from_tuples(
            [("K", 1, 2), ("K", 1, 3), ("Q", 1, 4)], names=["kind", "writer", "reader"]
        ),
    )
    for html in (frame.to_html(), frame.style.format(precision=1).to_html()):
        assert "rowspan" in html
        found = marked(aligned(html))
        assert {"score", "z"} <= set(found)
        assert {float(text) for text in found if is_number(text)} == {
            0.5,
            1.5,
            2.5,
            178.4,
            3.0,
            4.0,
        }
        assert not {"what", "a", "K", "kind"} & set(found)
