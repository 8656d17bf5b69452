"""Every page's first cell, with values that nobody meant: one sentence, and nothing is computed.

A cell runs as a notebook would run it: the first cell, the changed values, and the page's start.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("jupytext", reason="jupytext is absent: pip install .[book]")
import chapter_runs
from huggingface_hub import constants

import lnattn
from lnattn_book import page
from lnattn_book.page import first_cell
from lnattn_book.page.first_cell import FirstCellError, check, find_model, read_text

#: What may stand in no first cell, whatever it means there.
NOWHERE = [-1, 10**12, 2.5, True, None, "", "???", [], {}, object]
#: Values that may be any words: where they are none of the text, the page says what it takes.
WORDS = [("03-six-terms", "QUERY"), ("03-six-terms", "KEY")]
#: And what may not be a text: nothing, no words, one token.
NO_TEXT = ["", "  \n ", "a", 3, None, ["a text"]]
#: And no model.
NO_MODEL = [3, ["gpt2"], "  ", "data/nothing-here", "GPT22", "notebooks"]
NAMED = re.compile(r"^([A-Za-z_]+) = ", re.MULTILINE)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The embedded model without asking the hub, and each model read once."""
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    monkeypatch.setattr(lnattn, "load_first_layer", LOADED)


LOADED = cache(lnattn.load_first_layer)


@cache
def opening(name: str) -> tuple[str, str]:
    """The cell of a page that may be changed, and what checks it, without what follows there."""
    cells = chapter_runs.cells_of(name)
    (given,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    sources = [cell.source for cell in cells]
    checking = (
        "page.given(" if any("page.given(" in source for source in sources) else "page.start("
    )
    start = "page.start("
    needed = [source for source in sources if start in source or checking in source]
    statements = ast.parse(needed[-1]).body
    (last,) = [n for n, part in enumerate(statements) if checking in ast.unparse(part)]
    return given, "\n".join([*needed[:-1], *map(ast.unparse, statements[: last + 1])])


def names_of(name: str) -> list[str]:
    return NAMED.findall(opening(name)[0])


def with_parameters() -> list[str]:
    """Pages whose first cell invites to change something."""
    paths = sorted(chapter_runs.NOTEBOOKS.glob("*.md"))
    return [path.stem for path in paths if ":tags: [parameters]" in path.read_text("utf-8")]


def begin(name: str, **values: object) -> dict[str, object]:
    """Run a page's first cell, change values, and start the page; the names that are there then."""
    names: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(chapter_runs.NOTEBOOKS)
    try:
        exec(opening(name)[0], names)
        names |= values
        exec(compile(opening(name)[1], name, "exec"), names)
    finally:
        os.chdir(before)
    return names


PAGES = with_parameters()
#: (page, name) of all that a reader is invited to change but text and model.
VALUES = [
    (name, value) for name in PAGES for value in names_of(name) if value not in ("MODEL", "text")
]
TEXTS = [name for name in PAGES if "text" in names_of(name)]
MODELS = [name for name in PAGES if "page.choose(MODEL)" in opening(name)[1]]


def test_there_are_pages_texts_and_models():
    assert len(PAGES) > 13
    assert len(TEXTS) >= 7
    assert len(VALUES) >= 15
    assert len(MODELS) > 10


@pytest.mark.parametrize("name", PAGES)
def test_a_parameter_stands_on_a_line_of_its_own(name):
    """As papermill reads them; each is a plain value."""
    source = opening(name)[0]
    names: dict[str, object] = {}
    exec(source, names)
    assert {*names_of(name)} == {*names} - {"__builtins__"}


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_a_value_that_is_none_is_refused_in_one_sentence(name, value):
    begin(name)  # as it is committed
    words = (name, value) in WORDS
    for odd in (odd for odd in NOWHERE if not (words and odd == "???")):
        with pytest.raises(FirstCellError) as refused:
            begin(name, **{value: odd})
        (said,) = refused.value._render_traceback_()
        assert said.startswith(f"{value} = "), said
        assert said.endswith("Change it in this page's first cell."), said
        assert "\n" not in said


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_none_is_refused_and_a_long_one_is_cut(name, capsys):
    for odd in NO_TEXT:
        with pytest.raises(FirstCellError, match=r"^text = "):
            begin(name, text=odd)
    names = begin(name, text="the river and the bridge " * 900)
    assert "The text is cut" in capsys.readouterr().out
    assert len(names["text"].split()) <= first_cell.MOST_TOKENS
    assert len(begin(name, text="Grüße an Ölçün, 日本語 😀 and all the others there.")["text"]) > 9


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_none_is_refused(name, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for odd in NO_MODEL:
        with pytest.raises(FirstCellError, match=r"^MODEL = "):
            begin(name, MODEL=odd)


def test_a_folder_is_found_from_the_clones_root(monkeypatch):
    monkeypatch.chdir(chapter_runs.NOTEBOOKS)
    found = Path(find_model("data/book-llama"))
    assert (found / "config.json").is_file()
    assert page.choose("data/book-gpt2").name == str(found.with_name("book-gpt2"))
    monkeypatch.chdir(found.parents[1])
    assert find_model("data/book-llama") == "data/book-llama"


def test_where_it_was_looked_and_what_may_be_meant(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(chapter_runs.NOTEBOOKS)
    with pytest.raises(FirstCellError) as refused:
        page.choose("data/book-lama")
    root = chapter_runs.NOTEBOOKS.parent
    assert f"a folder data/book-lama in {chapter_runs.NOTEBOOKS}" in str(refused.value)
    assert f"and none in {root}; " in str(refused.value)
    assert "did you mean 'data/book-llama'?" in str(refused.value)
    with pytest.raises(FirstCellError, match="did you mean 'gpt2'"):
        page.choose("GPT2")


def test_values_are_named_with_what_may_stand_there():
    for value, allowed, said in [
        (99, range(12), "a whole number from 0 to 11"),
        (1, range(1), "it must be 0, the only one"),
        ("EE", ("ee", "pp"), "one of ee, pp; did you mean 'ee'?"),
        (7, (50, 500), "one of 50, 500."),
        ("", str, "words between quotation marks"),
    ]:
        with pytest.raises(FirstCellError, match=re.escape(said)):
            check("X", value, allowed)
    check("X", 11, range(12))
    check("X", 500, (50, 500))


@pytest.mark.parametrize("odd", [[1], [], 5, [1, 1], [1, 2, 3], [0, 99], ["a", 2], "12", [True, 2]])
def test_two_places_are_two_different_ones(odd):
    first_cell.check_places("QUERIES", [1, 0], range(9))
    with pytest.raises(FirstCellError, match="a list of 2 different places of the text, each a"):
        first_cell.check_places("QUERIES", odd, range(9))


class Letters:
    """A model whose tokens are letters, in a frame of two, and which reads eight of them."""

    name = "letters"
    is_fast = True

    class embeddings:
        n_positions = 8

    def __init__(self, has_tokenizer: bool = True):
        self.tokenizer = self if has_tokenizer else None

    def __call__(self, text, add_special_tokens=True, **_):
        ids = [*map(ord, text)]
        places = [(n, n + 1) for n in range(len(text))]
        framed = [0, *ids, 0] if add_special_tokens else ids
        return {"input_ids": framed, "offset_mapping": places}


def test_a_text_is_cut_to_the_models_context():
    assert read_text("abcdef", Letters()) == ("abcdef", "")
    cut, note = read_text("abcdefg", Letters())
    assert cut == "abcdef"
    assert note == "The text is cut: this page reads its first 6 tokens in letters."
    assert read_text("abcdefg", Letters(has_tokenizer=False)) == ("abcdefg", "")
    long, note = read_text("a" * 10_000, Letters(has_tokenizer=False))
    assert len(long) < 10_000
    assert "cut" in note


def test_a_model_without_a_tokenizer_is_said_at_the_start(capsys):
    model = Letters(has_tokenizer=False)
    assert page.start(model, of=Letters(), text="abc") == "abc"
    assert capsys.readouterr().out.count("It has no tokenizer") == 1
    page.start(model)
    assert "no tokenizer" not in capsys.readouterr().out


def test_a_key_stands_before_its_query():
    page.start(Letters(), text="abc", query=2, key=2)
    with pytest.raises(FirstCellError, match=r"^KEY = 3: it must be a whole number from 0 to 2"):
        page.start(Letters(), text="abc", query=2, key=3)
    with pytest.raises(FirstCellError, match=r"^QUERY = 5: it must be a whole number from 0 to 4"):
        page.start(Letters(), text="abc", query=5, key=0)
