"""How a chapter begins: an answer of at most forty words; a sentence before each figure."""

from __future__ import annotations

import re

import pytest

from lnattn_book.page import places

NOTEBOOKS = sorted((places.repository() / "notebooks").glob("*.md"))
OPENINGS = {
    path.stem: found[1].strip()
    for path in NOTEBOOKS
    if (found := re.search(r"^:::\{opening\}\n(.*?)^:::$", path.read_text("utf-8"), re.M | re.S))
}
#: The longest answer, in words; a formula counts as one.
LONGEST = 40


def words(text: str) -> int:
    return len(re.sub(r"\$[^$]*\$", "formula", text).split())


@pytest.mark.parametrize("name", OPENINGS)
def test_the_answer_has_at_most_forty_words(name):
    question, answer, *_why = re.split(r"\n\s*\n", OPENINGS[name])
    assert question.endswith("?")
    assert words(answer) <= LONGEST, f"{words(answer)} words"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_section_opens_with_a_figure(path):
    """Some words stand between a heading and the first figure under it."""
    text = re.sub(r"^:tags: \[parameters\]$", "", path.read_text("utf-8"), flags=re.M)
    sections = re.split(r"^## .*$", text, flags=re.M)[1:]
    bare = [part[:60] for part in sections if re.match(r"\s*```\{code-cell\}[^`]*?figure:", part)]
    assert bare == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_is_removed_from_its_page(path):
    """What a reader cannot see he can neither follow nor change; what is long is folded."""
    tags = re.findall(r"^(?::tags:|tags:) \[(.*)\]$", path.read_text("utf-8"), re.M)
    assert tags or "{code-cell}" not in path.read_text("utf-8")
    assert [tag for tag in tags if "remove-" in tag] == []
