"""A sentence checks itself: numbers in words, values beside them, conditions, and the table."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lnattn.errors import ResultError
from lnattn_book import page
from lnattn_book.page.checks import Check, recorded, says
from lnattn_book.page.digits import is_spelled_in, numbers_in

ROOT = Path(__file__).resolve().parents[1]

# --- numbers in words -------------------------------------------------------------------------

#: Words, and what they hold: a value that their number rounds, and two just beside it.
PRINTED = [
    ("loses 0.96 nats", 0.9649, 0.9651, 0.9549),
    ("27 % of the pieces", 0.2651, 0.2649, 0.2751),
    ("27% of the pieces", 0.2749, 0.2751, 0.2649),
    ("27 per cent of them", 0.2749, 0.2751, 27.0),
    ("84 %", 0.8351, 0.8349, 0.8451),
    ("pays .84 from pieces", 0.8449, 0.8451, 0.8349),
    ("rho is −.36", -0.3649, -0.3651, 0.36),
    ("rho is -0.36", -0.3551, -0.3549, 0.36),
    ("rises (+.68)", 0.6751, 0.6749, -0.68),
    ("all 1,945 tokens", 1945.4, 1945.6, 1944.4),
    ("200,000 queries", 200_000, 200_001, 199_999),
    ("1 in 1,945", 1 / 1945.4, 1 / 1945.6, 1945),
    ("one in 12", 1 / 12.4, 1 / 12.6, 12),
    ("2.1 million tokens", 2_149_000, 2_151_000, 2.1),
    ("68 million tokens", 68_400_000, 68_600_000, 67_400_000),
    ("off by 2e-6", 2.4e-6, 2.6e-6, 1.4e-6),
    ("off by 2e−6", 2.4e-6, 2.6e-6, -2e-6),
    ("in 64-token windows", 64, 65, 63),
    ("less than 2 %", 0.0199, 0.02, 0.03),
    ("above .9 in every head", 0.91, 0.9, 0.8),
    ("0.000 nats", 0.0004, 0.0006, -0.0006),
    ("[−0.014, or none", -0.0144, -0.0146, 0.014),
]


@pytest.mark.parametrize(("words", "rounded", "above", "below"), PRINTED)
def test_a_number_is_compared_as_it_is_printed(words, rounded, above, below):
    assert says(words, rounded).holds
    assert not says(words, above).holds
    assert not says(words, below).holds
    assert not says(words, float("nan")).holds


#: What is said, what fits, and what would only after rounding.
BOUNDS = [
    ("46 % or more in every text", 0.46, 0.4573),
    ("at least 46 %", 0.461, 0.4599),
    ("no less than 3", 3, 2.9),
    ("at most 13 %", 0.1294, 0.1304),
    ("up to 35 %", 0.35, 0.3504),
    ("0.002 nats at most", 0.002, 0.0021),
    ("not more than 5 heads", 5, 6),
    ("0.005 nats or less", 0.005, 0.0051),
]


@pytest.mark.parametrize(("words", "fits", "rounded"), BOUNDS)
def test_a_bound_is_not_helped_by_rounding(words, fits, rounded):
    assert says(words, fits).holds
    assert not says(words, rounded).holds


def test_a_number_before_the_bound_of_another_is_none():
    assert says("attention on position 0 by at most 0.01", 0, 0.009).holds
    assert not says("attention on position 0 by at most 0.01", 0, 0.011).holds


@given(
    value=st.floats(-1000, 1000),
    decimals=st.integers(0, 4),
    percent=st.booleans(),
    moved=st.sampled_from([-2, -1, 1, 2]),
)
def test_a_moved_number_never_holds(value, decimals, percent, moved):
    """Printed by Python, read back; and with its last digit one or two higher or lower."""
    unit = 10.0**-decimals
    printed = value * 100 if percent else value

    def sentence(number: float) -> str:
        text = f"{number:,.{decimals}f}".replace("-", "−")
        return f"in head {3}, by {text}{' %' if percent else ''} of the whole"

    assert says(sentence(printed), 3, value).holds
    assert not says(sentence(printed + moved * 1.01 * unit), 3, value).holds
    assert not says(sentence(printed), 4, value).holds


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ("loses 0.96 nats without where, 0.03 without what", ["0.96", "0.03"]),
        ("17 to 28 %", ["17", "28 %"]),
        ("45 and 28 %", ["45", "28 %"]),
        ("2–5 %", ["2", "5 %"]),
        ("in 12 heads and 5 %", ["12", "5 %"]),
        ("2.1 to 8.4 million", ["2.1", "8.4 million"]),
        ("11 of GPT-2's 12 heads", ["11", "12"]),
        ("D5 holds in 3D, the 2nd of MiniLM-L6 and book-gpt2", []),
        ("along the vector **1**", []),
        ("(0.32 and 0.24) [−0.014, 0.162].", ["0.32", "0.24", "−0.014", "0.162"]),
    ],
)
def test_which_numbers_stand_in_words(words, texts):
    assert [number.text for number in numbers_in(words)] == texts


def test_percent_and_millions_hold_for_the_number_before():
    assert says("17 to 28 %", 0.174, 0.284).holds
    assert not says("17 to 28 %", 17, 0.28).holds
    assert says("2.1 to 8.4 million", 2_097_152, 8_388_608).holds
    assert says("in 12 heads and 5 %", 12, 0.05).holds


def test_found_is_printed_with_a_digit_more():
    found = says("27 % of 2,609, −.36, 2e-6, 1 in 12", 0.26543, 2609, -0.3649, 2.26e-6, 0.08).found
    assert found == "26.5 %, 2,609, −0.365, 2.3e−06, 1 in 12.5"
    assert says("2.1 million", 2_097_152).found == "2.10 million"


# --- values and conditions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [4, 5],
        [np.array([4, 5])],
        [torch.tensor([4, 5])],
        [pd.Index([4, 5])],
        [[4], np.int64(5)],
        [lambda: [4, 5]],
    ],
)
def test_values_are_taken_in_order(values):
    assert says("heads 4 and 5 lead", *values).holds
    assert not says("heads 5 and 4 lead", *values).holds
    assert not says("heads 4 to 6 lead", *values).holds


@pytest.mark.parametrize(
    "condition", [True, np.True_, np.array([True, True]), torch.tensor(True), lambda: True]
)
def test_words_without_numbers_take_conditions(condition):
    assert says("more than any head", condition) == Check("more than any head", "so", True)
    assert not says("more than any head", condition, False).holds
    assert not says("more than any head", condition, np.array([True, False])).holds


@pytest.mark.parametrize(
    ("words", "values", "found"),
    [
        ("heads 4 and 5", [4], "1 numbers (4) for those of the words (4, 5)"),
        ("head 4", [4, 5], "2 numbers (4, 5) for those of the words (4)"),
        ("head 4", [True], "0 numbers (so) for those of the words (4)"),
        ("heads lead", [3], "1 numbers (3) for those of the words (none)"),
        ("heads lead", [], "but no condition"),
        ("three of 8 heads", [8], "8, but no condition"),
        ("every head", [np.array([], dtype=bool)], "is empty"),
        ("every head", [[]], "is empty"),
        ("it leads", [None], "None is neither a number nor true or false"),
        ("it leads", ["head 4"], "'head 4' is neither a number nor true or false"),
        ("it leads", [lambda: {}["head"]], "KeyError: 'head'"),
        ("it leads", [lambda: 1 / 0], "ZeroDivisionError: division by zero"),
        ("loses 0.96", [lambda: [][3]], "IndexError: list index out of range"),
    ],
)
def test_what_cannot_be_asked_counts_as_failed(words, values, found):
    check = says(words, *values)
    assert check.holds is False
    assert found in check.found


def test_a_condition_shows_what_it_is_about():
    assert says("three times as long", 2.5 < 2.9, found=2.9).found == "2.9"
    assert says("three of 8 heads", 8, [True] * 3, found=[1, 2]).found == "8, 1, 2"
    assert says("many queries", True, found=19324.2).found == "19,324"


@pytest.mark.parametrize("word", ["two", "Three", "half", "twice", "threefold", "hundred"])
def test_numbers_in_letters(word):
    assert is_spelled_in(f"in {word} heads")
    assert not is_spelled_in("some one head, often")


# --- the table ---------------------------------------------------------------------------------


def test_the_table_shows_and_records_each_sentence():
    checks = [says("loses <0.96> nats", 0.961), says("it leads", False)]
    table = page.table(checks)
    assert repr(table) == (
        "1 of 2 checked sentences hold.\nThe page says ‘it leads’; it finds not so."
    )
    shown, metadata = table._repr_mimebundle_()
    assert "<td>loses &lt;0.96&gt; nats</td><td>0.961</td><td>✓</td>" in shown["text/html"]
    assert "<td>it leads</td><td>not so</td><td>✗</td>" in shown["text/html"]
    notebook = {"cells": [{"outputs": [{"metadata": metadata}, {}]}, {}]}
    assert list(recorded(notebook)) == checks


def test_an_error_between_two_sentences_ends_the_table_and_not_the_chapter():
    def checks(heads):
        yield says("it leads", True)
        yield says("loses 0.96", heads["absent"])

    first, second = page.table(checks({})).checks
    assert first.holds
    assert second == Check("what follows ‘it leads’", "KeyError: 'absent'", False)
    with pytest.raises(KeyboardInterrupt):
        page.table(interrupt() for _ in [1])


def interrupt():
    raise KeyboardInterrupt


def test_a_table_of_nothing_is_refused():
    with pytest.raises(ResultError, match="checks nothing"):
        page.table([])


# ---- Conditions that hold of nothing -------------------------------------------------------------


def conditions_of_nothing(source: str) -> list[str]:
    """Calls that turn an empty list into 'true' before `says` sees that it is empty.

    `says` takes arrays, all of which must be true, and refuses an empty one.
    """
    calls = [
        node
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef) and "says(" in ast.unparse(function)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    ]
    return [
        ast.unparse(call)
        for call in calls
        if (isinstance(call.func, ast.Name) and call.func.id in ("all", "any"))
        or (ast.unparse(call.func).endswith(".all") and not call.args and not call.keywords)
    ]


def test_no_sentence_of_a_chapter_may_hold_of_an_empty_list():
    assert conditions_of_nothing("def f():\n yield says('a', all(x for x in []))")
    assert conditions_of_nothing("def f():\n b = (x > 1).all()\n yield says('a', b)")
    assert not conditions_of_nothing("def f():\n yield says('a', (x > 1).all(axis=0))")
    chapters = sorted((ROOT / "src" / "lnattn_book" / "chapters").glob("*.py"))
    told = {path.stem: conditions_of_nothing(path.read_text("utf-8")) for path in chapters}
    assert {name: calls for name, calls in told.items() if calls} == {
        # Of the columns of a table: which ones, not whether.
        "pairs_first": ["(said == 'pairs').all()"]
    }
    assert len(told) > 20
