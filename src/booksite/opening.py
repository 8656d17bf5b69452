"""How every chapter opens, how long it takes, and where it shows the reader's own model.

`{opening}` is a directive of three paragraphs: the question, the answer, why it matters. On the
page stand the question and its answer, one grey folded line (the cell that names model and
versions), the chapter's first picture, and then the rest, with the minutes, which are counted, not
typed: words of prose at `WORDS` a minute, and `PAUSE` of a minute for whatever else one has to look
at.

A section with the title `PANEL` holds what the chapter gives on the model of this build. Its title
names that model. On GPT-2, which the papers are about, it is the chapter's first section and open;
on any other model it stays where it is, folded, and takes no time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from booksite.checks import executed_notebook
from lnattn_book.page.checks import described
from lnattn_book.page.names import model_name

PARTS = ("Question", "Short answer", "Why it matters")
TIME = "Time"
PANEL = "On MODEL"
#: Class of the answer's list, which stays with the question, and of the list behind the picture.
ANSWER, REST = "chapter-answer", "chapter-rest"
#: What the one line before the picture is called.
MADE = "How this page was made"
#: Words that one reads in a minute of a text with mathematics in it.
WORDS = 160
#: Minutes for a figure, and for a table or a displayed equation.
LOOK, PAUSE = 1.0, 0.5
#: Where the minutes of a page are kept in Sphinx's metadata.
MINUTES = "lnattn_minutes"
#: Classes of what lies apart; sphinx-design marks its dropdowns otherwise, too.
_APART = {"dropdown", "solution", "on-model", "on-model-folded"}
_NAME = re.compile(r"^([A-Za-z_]\w*) = ", re.MULTILINE)


class Opening(SphinxDirective):
    """`{opening}`: three paragraphs; the question, its answer, and a list of the rest."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, holder)
        if [type(part) for part in holder.children] != [nodes.paragraph] * len(PARTS):
            raise self.error(
                f"an opening is {len(PARTS)} paragraphs ({', '.join(PARTS).lower()}), with an "
                "empty line between two of them."
            )
        question, answer, why = holder.children
        question["classes"].append("chapter-question")
        time = nodes.paragraph("", "", nodes.inline("", "", **{MINUTES: True}))
        return [
            question,
            _listed(ANSWER, {PARTS[1]: answer}),
            _listed(REST, {PARTS[2]: why, TIME: time}),
        ]


def _listed(kind: str, parts: dict[str, nodes.Node]) -> nodes.definition_list:
    """Named paragraphs as a list."""
    items = [
        nodes.definition_list_item(
            "", nodes.term("", "", nodes.Text(name)), nodes.definition("", part)
        )
        for name, part in parts.items()
    ]
    return nodes.definition_list("", *items, classes=["chapter-opening", kind])


# ---- Order ---------------------------------------------------------------------------------------


class Made(NamedTuple):
    """What a page was made with: the number of the cell that says so, and the model's name."""

    cell: int
    model: str


def made_with(notebook: Mapping[str, Any]) -> Made | None:
    """What an executed notebook says of its model, as readers know it; None where nothing."""
    for number, cell in enumerate(notebook["cells"]):
        for about in described({"cells": [cell]}):
            if name := about.get("model"):
                return Made(number, model_name(name.rpartition("/")[2]))
    return None


def arrange(doctree: nodes.document, made: Made | None) -> None:
    """Fold what the page was made with; put the first picture between answer and rest."""
    for cell in _cells(doctree):
        if made is not None and cell.get("cell_index") == made.cell:
            cell.update_all_atts(
                {"hide_mode": "all", "prompt_show": MADE, "prompt_hide": MADE}, replace=True
            )
            cell["classes"].append("page-made")
    put_parameters(doctree)
    for rest in list(doctree.findall(_is_rest)):
        beside = rest.parent.children
        for node in beside[beside.index(rest) + 1 :]:
            if any(node.findall(nodes.figure)):
                beside.remove(rest)
                beside.insert(beside.index(node) + 1, rest)
                break
            if not isinstance(node, nodes.container | nodes.comment | nodes.target):
                break  # prose: there is no picture right here


def put_parameters(doctree: nodes.document) -> None:
    """Put what a reader may change where its change is seen first: before the cell that reads it.

    Where no cell but the page's start does, it is the panel's model; without a panel it stays.
    """
    for given in [cell for cell in _cells(doctree) if "tag_parameters" in cell["classes"]]:
        names = set(_NAME.findall(given[0].astext())) - {"MODEL"}
        reading = re.compile(rf"\b(?:{'|'.join(names)})\b") if names else None
        for cell in _cells(doctree):
            is_other = cell is not given and "page-made" not in cell["classes"]
            if is_other and reading is not None and reading.search(cell[0].astext()):
                _move_before(given, cell)
                break
        else:
            for section in doctree.findall(nodes.section):
                if section[0].astext() == PANEL:
                    given.parent.remove(given)
                    section.insert(1, given)
                    break


def _move_before(given: nodes.Element, cell: nodes.Element) -> None:
    """Before a cell; but behind one with a picture, which stands next to the answer."""
    given.parent.remove(given)
    place = cell.parent.index(cell)
    cell.parent.insert(place + any(cell.findall(nodes.figure)), given)


def put_panel(doctree: nodes.document, model: str | None) -> None:
    """Name the model in the panel's title; first and open on GPT-2, else folded."""
    model = model or "the model of this page"
    for section in list(doctree.findall(nodes.section)):
        title = section.next_node(nodes.title)
        if title is None or title.astext() != PANEL or title.parent is not section:
            continue
        title.children = [nodes.Text(PANEL.replace("MODEL", model))]
        is_open = model == "GPT-2"
        section["classes"].append("on-model" if is_open else "on-model-folded")
        summary = f"What this page gives on {html.escape(model)}, the model of this build"
        begin = (
            f'<details class="on-model"{" open" if is_open else ""}><summary>{summary}</summary>'
        )
        section.insert(1, nodes.raw("", begin, format="html"))
        section.append(nodes.raw("", "</details>", format="html"))
        if is_open:
            chapter = section.parent
            chapter.remove(section)
            first = next(i for i, n in enumerate(chapter) if isinstance(n, nodes.section))
            chapter.insert(first, section)


def _cells(doctree: nodes.document) -> list[nodes.container]:
    containers = doctree.findall(nodes.container)
    return [node for node in containers if node.get("nb_element") == "cell_code"]


def _is_rest(node: nodes.Node) -> bool:
    return isinstance(node, nodes.definition_list) and REST in node["classes"]


# ---- Time ----------------------------------------------------------------------------------------


def minutes(part: nodes.Element, panel: bool = False) -> int:
    """Minutes to read a part, at least one: prose and captions, and what one has to look at.

    Tables that code makes count too; code, what else it prints, solutions of exercises, and what
    stands behind the marks of checked sentences do not. panel: count what lies apart, too.
    """
    prose = (nodes.paragraph, nodes.caption, nodes.title)
    shown = list(part.findall(nodes.Element) if panel else _in_the_open(part))
    words = sum(len(_read(node).split()) for node in shown if isinstance(node, prose))
    return max(1, round(words / WORDS + sum(map(_pause, shown))))


def _read(node: nodes.Element) -> str:
    """What one reads of a paragraph: its text without the markup that stands in it."""
    return "".join(
        text.astext() for text in node.findall(nodes.Text) if not isinstance(text.parent, nodes.raw)
    )


def _pause(node: nodes.Element) -> float:
    """For how many minutes one stops at it: a figure, an equation, or a table of either kind."""
    if isinstance(node, nodes.figure):
        return LOOK
    if isinstance(node, nodes.raw):
        return PAUSE if "<table" in node.astext() else 0
    return PAUSE if isinstance(node, nodes.table | nodes.math_block) else 0


def _in_the_open(part: nodes.Element) -> Iterator[nodes.Element]:
    """A part and all in it but what lies in a dropdown, a solution or the panel."""
    is_folded = part.get("design_component") == "dropdown" or part.get("hide_mode") == "all"
    if is_folded or _APART & set(part["classes"]):
        return
    yield part
    for child in part.children:
        if isinstance(child, nodes.Element):
            yield from _in_the_open(child)


def read(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: order the page, and write its time where there is room."""
    made = made_with(executed_notebook(app, app.env.docname))
    arrange(doctree, made)
    put_panel(doctree, made.model if made else None)
    count = minutes(doctree)
    app.env.metadata[app.env.docname][MINUTES] = count
    opened = [
        section for section in doctree.findall(nodes.section) if "on-model" in section["classes"]
    ]
    more = "".join(
        f", and {minutes(section, panel=True)} for the panel {section[0].astext()}"
        for section in opened
    )
    for mark in list(
        doctree.findall(lambda node: isinstance(node, nodes.inline) and MINUTES in node)
    ):
        mark.replace_self(
            nodes.Text(f"about {count} minute{'s' if count > 1 else ''} to read{more}")
        )


def setup(app: Sphinx) -> None:
    """Register the directive and the event above."""
    app.add_directive("opening", Opening)
    # Before Sphinx collects titles and tables of contents, at the default priority, 500.
    app.connect("doctree-read", read, priority=400)
