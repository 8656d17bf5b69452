"""Which checked sentences follow from code that their page shows."""

from __future__ import annotations

from collections import Counter

import jupytext
import pytest

from booksite import open_code
from booksite.open_code import FOLDED, OPEN, REMOVED
from lnattn_book import places

NOTEBOOKS = sorted((places.repository() / "notebooks").glob("*.md"))
#: The goal of the book.
GOAL = 3 / 4


def notebook(tmp_path, *cells):
    """A notebook of cells, each with its tag and its source."""
    blocks = [
        f"```{{code-cell}} ipython3\n:tags: [{tag}]\n{source}\n```\n" for tag, source in cells
    ]
    head = (
        "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n"
    )
    path = tmp_path / "made.md"
    path.write_text(head + "\n".join(blocks), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("shown > 1", OPEN),
        ("lambda: max(shown) > np.pi", OPEN),
        ("shown > folded", FOLDED),
        ("folded > removed", REMOVED),
        ("all(removed > 1 for removed in shown)", OPEN),  # bound by the comprehension
    ],
)
def test_a_guard_counts_for_the_worst_cell_that_it_needs(tmp_path, condition, kind):
    path = notebook(
        tmp_path,
        ("hide-input", "import numpy as np"),
        ("parameters", "shown = 1"),
        ("hide-input", "folded = 2"),
        ("remove-cell", "removed = 3"),
        ("remove-cell", f"page.holds('words', {condition})"),
    )
    assert open_code.counts(jupytext.read(path).cells) == Counter({kind: 1})


def test_the_line_of_the_build():
    found = Counter({OPEN: 1, FOLDED: 2, REMOVED: 1})
    assert open_code.told(found) == (
        "of 4 checked sentences 3 (75%) follow from code on their page: 1 from open cells alone"
    )


def test_three_quarters_follow_from_code_on_their_page():
    found = sum((open_code.counts(jupytext.read(path).cells) for path in NOTEBOOKS), Counter())
    assert found[OPEN] + found[FOLDED] > GOAL * sum(found.values()) > 0
