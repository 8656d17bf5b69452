"""Who changes what a page invites to change gets to its end, and is told what no longer holds."""

from __future__ import annotations

import matplotlib as mpl
import pytest

pytest.importorskip("jupytext", reason="jupytext is absent: pip install .[book]")
import chapter_runs

mpl.use("Agg")


def test_the_unchanged_chapter_05_says_nothing():
    assert chapter_runs.run("05").broken == []


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
def test_chapter_05_runs_to_its_end_with_other_words_head_or_model(changes):
    done = chapter_runs.run("05", **changes)
    assert "own_sizes" in done.names, "the panel at the end was reached"
    if "MODEL" not in changes:
        assert done.broken, "sentences about the unchanged chapter are named"


@pytest.mark.parametrize(
    ("chapter", "changes"),
    [
        ("07", {"HEAD": 5, "QUERY": 50}),
        ("09", {"HEAD": 5, "QUERY": 500}),
        ("07", {"MODEL": "book-llama"}),
        ("09", {"MODEL": "book-llama"}),
    ],
    ids=str,
)
def test_chapters_07_and_09_run_to_their_end_with_another_head_or_model(chapter, changes):
    done = chapter_runs.run(chapter, **changes)
    assert done.broken == [], "they speak of heads and models by name, whichever is chosen"
    assert "Error:" not in done.said
    assert ("cannot be asked of this model" in done.said) == ("MODEL" in changes)
