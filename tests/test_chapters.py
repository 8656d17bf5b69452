"""Chapters are built alike: how they open and end, what they hide, which figures they mention.

All of it is read from the sources, so it is known long before a chapter is executed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import pytest
import yaml

from lnattn import paths

ROOT = paths.repository()
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.md"))
CHAPTERS = [path for path in NOTEBOOKS if path.name[0].isdigit()]
PAGES = [*NOTEBOOKS, *sorted((ROOT / "book").glob("*.md"))]

_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OPENING = re.compile(r"^:::\{opening\}\n(.*?)^:::$", re.DOTALL | re.MULTILINE)
#: Tags of cells whose code a reader cannot see, not even by unfolding it.
REMOVED = {"remove-cell", "remove-input"}
#: Largest share of a notebook's lines of code that may be in such cells, and the longest line.
HIDDEN, WIDTH = 0.25, 88
#: Comparisons of a chapter with a number that only describe what they count, in words beside it.
#: What decides about a claim stands in `book/claims.yml`, and nowhere else.
DESCRIBING = {
    "04-circuits": {"copying > 0.5"},
    "06-detokenization-heads": {"previous.max(axis=0) > 0.1"},
    "07-position-bias": {
        "table['near T^pp percentile'] > 0.75",
        "overview['near T^pp percentile'] > 0.75",
        "near_500 <= 0.03",
        "np.abs(v / middle - 1) < 0.1",
        "steps[-1] < 0.9",
    },
    "09-variance": {"study.counts >= 100", "np.abs(v / middle - 1) < 0.1"},
    "13-rotary": {"best <= 10", "chance <= 10"},
}


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook: its metadata, its code, and where it begins in the source."""

    metadata: dict
    code: str
    start: int

    @property
    def lines(self) -> list[str]:
        """Lines of code: neither empty ones nor comments."""
        return [line for line in self.code.splitlines() if re.match(r"\s*[^#\s]", line)]

    @property
    def removed(self) -> bool:
        return bool(REMOVED & set(self.metadata.get("tags", ())))

    @property
    def figure(self) -> str | None:
        return self.metadata.get("mystnb", {}).get("figure", {}).get("name")


def cells(text: str) -> list[Cell]:
    """The code cells of a MyST notebook, their metadata read in either way of writing them."""
    found = []
    for match in _CELL.finditer(text):
        body, metadata = match[1], {}
        if body.startswith("---\n"):
            head, _, body = body[4:].partition("---\n")
            metadata = yaml.safe_load(head)
        while option := re.match(r":(\w+): ([^\n]*)\n", body):
            metadata[option[1]] = yaml.safe_load(option[2])
            body = body[option.end() :]
        found.append(Cell(metadata, body, match.start()))
    return found


def hidden_share(text: str) -> float:
    """Share of the lines of code that are in removed cells."""
    all_cells = cells(text)
    total = sum(len(cell.lines) for cell in all_cells)
    return sum(len(cell.lines) for cell in all_cells if cell.removed) / total


def figures(text: str) -> list[str]:
    """Labels of the figures of a page, those that code makes and those that it does not."""
    made = [cell.figure for cell in cells(text) if cell.figure]
    return made + re.findall(r"^:name: (fig-\S+)$", text, re.MULTILINE)


def in_short(text: str) -> str:
    """The chapter's last words before its exercises."""
    found = re.search(r"^## In short\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def thresholds(code: str) -> set[str]:
    """Comparisons of size with a number other than 0 and 1, outside of assertions."""
    tree, found = ast.parse(code), set()
    asserted = {id(n) for a in ast.walk(tree) if isinstance(a, ast.Assert) for n in ast.walk(a)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or id(node) in asserted:
            continue
        sized = any(isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in node.ops)
        sides = [getattr(side, "operand", side) for side in (node.left, *node.comparators)]
        values = {side.value for side in sides if isinstance(side, ast.Constant)}
        if sized and any(isinstance(value, int | float) for value in values - {0, 1}):
            found.add(ast.unparse(node))
    return found


def name(path) -> str:
    return path.stem


def test_cells_are_read_as_the_book_reads_them():
    text = (
        "```{code-cell} ipython3\n:tags: [remove-cell]\na = 1\n\n# no code\nb = 2\n```\n"
        "```{code-cell}\n---\ntags: [hide-input]\nmystnb:\n  figure:\n    name: fig-a\n---\n"
        "draw()\n```\n```python\nno_cell()\n```\n:name: fig-b\n"
    )
    first, second = cells(text)
    assert (first.lines, first.removed, first.figure) == (["a = 1", "b = 2"], True, None)
    assert (second.lines, second.removed, second.figure) == (["draw()"], False, "fig-a")
    assert hidden_share(text) == 2 / 3
    assert figures(text) == ["fig-a", "fig-b"]
    assert in_short("## In short\n\n- a\n\n## Exercises\n\n- b\n").split() == ["-", "a"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_opens_like_every_other(path):
    """Title, opening, one folded Setup with the banner, then the rest: chapters and other pages."""
    text = path.read_text(encoding="utf-8")
    opening = _OPENING.search(text)
    assert opening, "no opening"
    assert re.search(r"^# [^\n]*\n\s*\Z", text[: opening.start()], re.MULTILINE)
    parts = opening[1].strip().split("\n\n")
    assert len(parts) == 3, "question, short answer, why it matters"
    assert parts[0].endswith("?")
    assert len(re.findall(r"[.?!](?= [A-Z*]|$)", " ".join(parts[0].split()))) == 1
    assert "{glue:text}" in parts[1]
    assert opening.end() < text.index("\n## ")
    setup, *others = cells(text)
    between = text[opening.end() : setup.start]
    assert not between.strip(), "nothing stands between the opening and the Setup"
    assert setup.metadata["tags"] == ["hide-input"]
    assert setup.metadata["mystnb"] == {"code_prompt_show": "Setup", "code_prompt_hide": "Setup"}
    assert re.search(r"^page\.start\(", setup.code, re.MULTILINE)
    for cell in others:
        assert not re.search(r"^(import|from) ", cell.code, re.MULTILINE), "imports: in the Setup"


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_a_chapter_has_one_picture_above_its_first_section(path):
    text = path.read_text(encoding="utf-8")
    first_section = text.index("\n## ")
    assert len([cell for cell in cells(text) if cell.figure and cell.start < first_section]) == 1


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_a_chapter_ends_with_three_bullets(path):
    """Only a chapter: the pages beside them list and compare, and have no finding to sum up."""
    text = path.read_text(encoding="utf-8")
    ending = in_short(text)
    assert len(re.findall(r"^- ", ending, re.MULTILINE)) == 3
    assert "{glue:text}" in ending
    later = re.findall(r"^## (.*)$", text[text.index("## In short") :], re.MULTILINE)
    assert later[1:] in ([], ["Exercises"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_at_most_a_quarter_of_the_code_is_hidden(path):
    assert hidden_share(path.read_text(encoding="utf-8")) <= HIDDEN


def test_thresholds_are_found():
    code = (
        "a = [x > 0.5 for x in y]\nassert b < 1e-4\nc = (d >= -2) | (e == 8) | (f[0] > 1) | (0 < g)"
    )
    assert thresholds(code) == {"x > 0.5", "d >= -2"}
    assert thresholds("z = q > limit") == set()


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_a_chapter_judges_by_rules_alone(path):
    """No threshold of its own, and no verdict that a rule has not given."""
    code = "\n".join(cell.code for cell in cells(path.read_text(encoding="utf-8")))
    assert thresholds(code) == DESCRIBING.get(path.stem, set())
    assert not re.search(r"\b(Verdict|Outcome)\(", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_no_line_of_code_is_cut_off(path):
    shown = [cell.code for cell in cells(path.read_text(encoding="utf-8"))]
    long = [line for code in shown for line in code.splitlines() if len(line) > WIDTH]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_every_figure_is_referred_to(path):
    text = path.read_text(encoding="utf-8")
    for label in figures(text):
        # A sentence that depends on the model is an f-string, whose braces are doubled.
        mentioned = re.search(rf"\{{numref\}}+`{re.escape(label)}`", text)
        assert mentioned, f"{label} is not mentioned on its own page"


def test_no_two_figures_have_one_label():
    labels = [label for path in PAGES for label in figures(path.read_text(encoding="utf-8"))]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_no_cell_asks_for_the_name_of_its_model(path):
    """A model has several names; the claims say which of them they are about."""
    code = "\n".join(cell.code for cell in cells(path.read_text(encoding="utf-8")))
    assert not re.search(r"\bmodel\.name [!=]= ", code)
