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


def cell(source: str, *tags: str, kind: str = "code") -> dict:
    return {"cell_type": kind, "metadata": {"tags": list(tags)}, "source": [source]}


def test_whatever_binds_a_name_binds_it():
    """Whatever else stands there: prose, lines that are no Python, and other calls."""
    folded = "%matplotlib inline\n!ls\nfrom a import b as c\nimport d.e\ndef f(): ...\nclass G: ..."
    asked = "page.holds('w', {})\npage.holds('w', c + d + len(g for g in {})).x\nother.holds(1, f)"
    cells = [cell("# not code (", kind="markdown"), cell(folded, "hide-cell"), cell("h = 1")]
    for condition, kind in (("h > 1", OPEN), ("f(h)", FOLDED), ("G", FOLDED), ("d.x", OPEN)):
        guard = cell(asked.format(condition, "h"), "remove-input")
        assert open_code.counts([*cells, guard, cell("more", kind="markdown")]) == (
            Counter([kind, OPEN])
        )
    rebound = [cell("x = 1", "remove-cell"), cell("x = 2"), cell("page.holds('w', x)")]
    assert open_code.counts(rebound) == Counter([OPEN])
    assert open_code.counts([cell("page.holds('w', True)")]) == Counter([OPEN])


def test_of_no_sentence_all_follow():
    assert open_code.told(Counter()).startswith("of 0 checked sentences 0 (100%)")


def test_the_line_of_the_build():
    found = Counter({OPEN: 1, FOLDED: 2, REMOVED: 1})
    assert open_code.told(found) == (
        "of 4 checked sentences 3 (75%) follow from code on their page: 1 from open cells alone"
    )


def test_three_quarters_follow_from_code_on_their_page():
    found = sum((open_code.counts(jupytext.read(path).cells) for path in NOTEBOOKS), Counter())
    assert found[OPEN] + found[FOLDED] > GOAL * sum(found.values()) > 0
