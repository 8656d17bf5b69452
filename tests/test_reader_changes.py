"""Who changes what a page invites to change gets to its end, and is told what no longer holds."""

from __future__ import annotations

import ast
import contextlib

import matplotlib as mpl
import pytest

pytest.importorskip("jupytext", reason="jupytext is absent: pip install .[book]")
import chapter_runs
from huggingface_hub import constants

from lnattn.errors import HubError

mpl.use("Agg")
#: Chapters and what their first cell invites to change, beside the model.
CHANGES = [
    ("transformer-layer", {"text": "Another text.", "HEAD": 3}),
    ("02", {"text": "Another text.", "HEAD": 3}),
    ("circuits", {"text": "Another text.", "LAYER": 5, "HEAD": 1}),
    ("layers-above", {"text": "Another text.", "LAYER": 5}),
    ("04", {"PIECE": "##s", "HEAD": 0}),
    ("05", {"HEAD": 5, "QUERY": 50}),
    ("06", {"text": "Another text, and not a long one.", "WITHOUT": "pp"}),
    ("07", {"HEAD": 5}),
    ("12", {"text": "A text of some other words.", "HEAD": 2, "QUERY": 4, "KEY": 1}),
    ("10", {"NORM": "LayerNorm", "OPTIMISER": "SGD", "SEED": 1}),
    ("09", {"SEED": 3, "KEYS": 9}),
]
#: Chapters that speak of heads and models by name: all they say holds whatever is chosen.
BY_NAME = ("05", "07")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No chapter asks a hub which model it can have."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_the_unchanged_chapter_03_says_nothing():
    assert chapter_runs.run("03").broken == []


@pytest.mark.parametrize(
    "changes",
    [
        {"HEAD": 4},
        {"QUERY": "obama", "KEY": "michelle"},
        {"text": "A short text.", "QUERY": "text", "KEY": "short"},
        {"text": "Nobody of them is here"},
        {"MODEL": "minilm"},
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_chapter_03_runs_to_its_end_with_other_words_head_or_model(changes):
    done = chapter_runs.run("03", **changes)
    assert "own_sizes" in done.names, "the panel at the end was reached"
    if "MODEL" not in changes:
        assert done.broken, "sentences about the unchanged chapter are named"


@pytest.mark.whole
@pytest.mark.parametrize("chapter", BY_NAME)
def test_chapters_05_and_07_run_to_their_end_with_a_rotary_model(chapter):
    done = chapter_runs.run(chapter, MODEL="book-llama")
    assert done.broken == [], "they speak of models by name, whichever is chosen"
    assert "Error:" not in done.said
    assert "scores have four terms and not six" in done.said


def with_a_model() -> list[str]:
    """The notebooks whose panels are about a model that the reader may choose."""
    notebooks = sorted(chapter_runs.NOTEBOOKS.glob("*.md"))
    return [path.stem for path in notebooks if "page.choose(" in path.read_text("utf-8")]


def test_no_page_takes_the_books_model_past_its_first_cell():
    for path in chapter_runs.NOTEBOOKS.glob("*.md"):
        assert "default_model(" not in path.read_text("utf-8"), path.name
    assert len(with_a_model()) > 12


@pytest.mark.parametrize("name", with_a_model())
def test_the_first_cell_says_what_can_be_changed_and_needs_nothing(name):
    """As papermill wants it: a cell of plain values with the tag `parameters`, MODEL among them."""
    cells = chapter_runs.cells_of(name)
    (first,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    given: dict[str, object] = {}
    for statement in ast.parse(first.source).body:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        given[ast.unparse(target)] = ast.literal_eval(statement.value)
    assert given["MODEL"] is None


@pytest.mark.whole
@pytest.mark.parametrize(("name", "changes"), CHANGES, ids=[name for name, _ in CHANGES])
def test_a_chapter_runs_to_its_end_with_what_it_invites_to_change(name, changes):
    """And the code that its solutions and its last section show runs behind it."""
    done = chapter_runs.run(name, **changes)
    assert done.ended == len(chapter_runs.cells_of(name)) + bool(changes)
    if name in BY_NAME:
        assert done.broken == []
        assert "Error:" not in done.said
        assert "scores have four terms and not six" not in done.said
    for code in chapter_runs.solutions_of(name):
        with contextlib.suppress(HubError):  # of a model that is not on this machine
            exec(code, done.names)
