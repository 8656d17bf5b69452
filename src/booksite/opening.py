"""How every chapter opens: its question, the short answer, why it matters, and the time it takes.

`{opening}` is a directive of three paragraphs, in that order. The minutes are counted, not typed:
words of prose at `WORDS` a minute, and `PAUSE` of a minute for whatever else one has to look at.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PARTS = ("Question", "Short answer", "Why it matters")
TIME = "Time"
#: Words that one reads in a minute of a text with mathematics in it.
WORDS = 180
#: Minutes for a figure, a table or a displayed equation.
PAUSE = 0.25
_MARK = "lnattn_minutes"


class Opening(SphinxDirective):
    """`{opening}`: three paragraphs, shown as a list of terms with the reading time as a fourth."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, holder)
        if [type(part) for part in holder.children] != [nodes.paragraph] * len(PARTS):
            raise self.error(
                f"an opening is {len(PARTS)} paragraphs ({', '.join(PARTS).lower()}), with an "
                "empty line between two of them."
            )
        time = nodes.paragraph("", "", nodes.inline("", "", **{_MARK: True}))
        items = [
            nodes.definition_list_item(
                "", nodes.term("", "", nodes.Text(name)), nodes.definition("", part)
            )
            for name, part in zip((*PARTS, TIME), (*holder.children, time), strict=True)
        ]
        return [nodes.definition_list("", *items, classes=["chapter-opening"])]


def minutes(doctree: nodes.document) -> int:
    """Minutes to read a page, at least one: prose and captions, and what one has to look at.

    Neither code nor what it prints is counted, nor what lies folded: solutions of exercises.
    """
    prose = (nodes.paragraph, nodes.caption, nodes.title)
    sights = (nodes.figure, nodes.table, nodes.math_block)
    shown = [node for node in doctree.findall(nodes.Element) if not _folded(node)]
    words = sum(len(node.astext().split()) for node in shown if isinstance(node, prose))
    seen = sum(isinstance(node, sights) for node in shown)
    return max(1, round(words / WORDS + seen * PAUSE))


def _folded(node: nodes.Node | None) -> bool:
    """Whether a node lies in a dropdown of sphinx-design, which marks it so."""
    while node is not None:
        if isinstance(node, nodes.Element) and node.get("design_component") == "dropdown":
            return True
        node = node.parent
    return False


def put_minutes(_app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: write the time where an opening left room for it."""
    for mark in list(
        doctree.findall(lambda node: isinstance(node, nodes.inline) and _MARK in node)
    ):
        count = minutes(doctree)
        mark.replace_self(nodes.Text(f"about {count} minute{'s' if count > 1 else ''} to read"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the event above."""
    app.add_directive("opening", Opening)
    app.connect("doctree-read", put_minutes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
