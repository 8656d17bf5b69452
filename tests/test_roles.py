"""Lists that are none, and heads of tables: the markup of other tools, put right."""

from __future__ import annotations

import re

import pandas as pd
import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.roles import repair, repaired


def head(table: pd.DataFrame) -> list[list[str]]:
    """The rows of the repaired head of a table, each a tag and its text."""
    shown = re.search("<thead>.*</thead>", repaired(table.to_html()), re.DOTALL)[0]
    rows = re.findall(r"<tr.*?</tr>", shown, re.DOTALL)
    return [["".join(cell) for cell in re.findall(r"<(t[hd])[^>]*>(.*?)<", row)] for row in rows]


def test_the_names_of_an_index_stand_beside_those_of_the_columns():
    rows = pd.MultiIndex.from_tuples([(1, 2)], names=["layer", "head"])
    table = pd.DataFrame({"share": [0.5], "nats": [1]}, index=rows)
    assert head(table) == [["thlayer", "thhead", "thshare", "thnats"]]


def test_a_head_without_a_name_is_an_empty_cell():
    assert head(pd.DataFrame({"share": [0.5]})) == [["td", "thshare"]]


def test_rows_that_both_have_names_stay_two():
    columns = pd.MultiIndex.from_tuples([("before", "nats"), ("after", "nats")])
    table = pd.DataFrame([[1, 2]], columns=columns)
    assert head(table) == [["td", "thbefore", "thafter"], ["td", "thnats", "thnats"]]


def test_a_name_over_two_columns_and_three_rows_stay():
    columns = pd.MultiIndex.from_product([["nats"], ["before", "after"]])
    over = pd.DataFrame([[1, 2]], columns=columns)
    assert head(over) == [["td", "thnats"], ["td", "thbefore", "thafter"]]
    named = over.rename_axis(index="head")
    assert len(head(named)) == 3


def test_lists_that_hold_no_items_of_a_list_are_none():
    page = (
        '<div role="list" class="citation-list"><div role="doc-biblioentry">A</div></div>'
        '<dl><dt class="sig py">f(<dl><dd>a</dd></dl>)</dt><dd>Words.</dd></dl>'
    )
    assert repaired(page) == (
        '<div class="citation-list"><div role="doc-biblioentry">A</div></div>'
        '<dl><dt class="sig py">f(<dl role="none"><dd role="none">a</dd></dl>)</dt>'
        "<dd>Words.</dd></dl>"
    )


def test_only_pages_with_a_body_are_repaired():
    context = {"body": "<thead><tr><th></th></tr></thead>"}
    repair(None, "page", "page.html", context, None)
    assert context == {"body": "<thead><tr><td></td></tr></thead>"}
    bare: dict[str, str] = {}
    repair(None, "search", "search.html", bare, None)
    assert bare == {}
