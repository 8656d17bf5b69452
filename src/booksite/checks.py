"""What the checked sentences of a page found: a warning where one does not hold, a ✓ at its end.

`page.table` leaves what it found in the executed notebook (`lnattn_book.page.checks`). The words it
checks are looked for in the page's own text. At the end of their sentence stands a small mark that
opens what was found. It is a button with a popover, so it works without JavaScript; a `details`
would end the paragraph. The marks of *Short answer* and *In short* are shown, those of the rest
only where a reader asks for them by the switch below the page's title. Print leaves them out.

A sentence that does not hold, and words that stand nowhere on their page, are Sphinx warnings, with
which `-W` fails. Numbers of a page that no check holds are named at the end of a build.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from booksite.downloads import executed
from lnattn.storage import read_json
from lnattn_book.page.checks import METADATA, Check, described, recorded
from lnattn_book.page.digits import numbers_in

#: Where the counts of a page are kept in Sphinx's metadata: checks, and numbers without any.
COUNTS = "lnattn_checks"
#: What stands between two parts of a checked sentence that lie apart.
GAP = "…"
#: Parts of a page whose marks are always shown: the answer's class, and the title of a section.
ANSWER, SHORT = "chapter-answer", "In short"
#: Numbers without a check that a build names, of a page.
_NAMED = 12
#: Quotation marks as prose is typed: the page has printers' ones.
_PLAIN = str.maketrans("‘’“”", "''\"\"")
_LOGGER = logging.getLogger(__name__)
#: Parts of a page that hold prose, and may carry a mark.
_PROSE = (nodes.paragraph, nodes.term, nodes.caption)
#: What in a sentence is no prose: its numbers are counted elsewhere, or are names.
_NO_PROSE = (
    nodes.math,
    nodes.literal,
    nodes.reference,
    nodes.strong,
    nodes.raw,
    addnodes.pending_xref,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*(?=\s|$)")


class Place(NamedTuple):
    """Where checked words stand: which block of prose, from where to where in its text."""

    block: int
    start: int
    end: int


def executed_notebook(app: Sphinx, page: str) -> dict[str, Any]:
    """The executed notebook of a page; one without cells for a page that runs no code."""
    path = executed(app, page)
    return read_json(path) if path.is_file() else {"cells": []}


def prose_of(doctree: nodes.document) -> list[nodes.Element]:
    """The parts of a page whose sentences may carry a mark, in order."""
    return list(doctree.findall(lambda node: isinstance(node, _PROSE)))


def place_of(blocks: Iterable[nodes.Element], words: str) -> Place | None:
    """Where checked words stand first; None where they stand nowhere."""
    pattern = _pattern(words)
    for number, block in enumerate(blocks):
        if match := pattern.search(_text(block)):
            return Place(number, *match.span())
    return None


def _texts(block: nodes.Element) -> list[nodes.Text]:
    """The texts of a block, but for those of markup that stands in it."""
    return [text for text in block.findall(nodes.Text) if not isinstance(text.parent, nodes.raw)]


def _text(block: nodes.Element) -> str:
    return "".join(_texts(block)).translate(_PLAIN)


def _pattern(words: str) -> re.Pattern[str]:
    """What finds checked words in a text."""
    parts = words.translate(_PLAIN).replace("*", "").split(GAP)
    patterns = (re.escape(part).replace(r"\ ", r"\s+") for part in parts)
    return re.compile(".*?".join(patterns), re.IGNORECASE | re.DOTALL)


# ---- Marks ---------------------------------------------------------------------------------------


def mark(checks: Sequence[Check], name: str, *, is_shown: bool) -> str:
    """The mark of a sentence, as HTML; name: of its note; is_shown: not only by the switch."""
    holds = all(check.holds for check in checks)
    sign = "✓" if holds else "✗"
    kinds = ["check", *([] if holds else ["check-fails"]), *([] if is_shown else ["check-more"])]
    rows = "".join(
        f'<span class="check-row">{"✓" if check.holds else "✗"} ‘{html.escape(check.words)}’: '
        f"{html.escape(check.found)}</span>"
        for check in checks
    )
    return (
        f'<button type="button" class="{" ".join(kinds)}" popovertarget="{name}" '
        f'aria-label="{"checked" if holds else "does not hold"}: what was found">{sign}</button>'
        f'<span popover id="{name}" class="check-note">{rows}</span>'
    )


def put_marks(blocks: Sequence[nodes.Element], places: Mapping[Check, Place]) -> int:
    """A mark at the end of each sentence that is checked; how many are seen by the switch alone."""
    sentences: dict[tuple[int, int], list[Check]] = defaultdict(list)
    for check, place in places.items():
        text = _text(blocks[place.block])
        end = _SENTENCE_END.search(text, place.end)
        sentences[place.block, end.end() if end else len(text.rstrip())].append(check)
    hidden = 0
    ordered = sorted(sentences, reverse=True)  # from the end: what stands before keeps its place
    for number, (block, at) in enumerate(ordered):
        is_shown = _is_in_the_open(blocks[block])
        hidden += not is_shown
        name = f"check-{len(ordered) - number}"
        shown = mark(sentences[block, at], name, is_shown=is_shown)
        _insert(blocks[block], at, nodes.raw("", shown, format="html"))
    return hidden


def _is_in_the_open(block: nodes.Element) -> bool:
    """Whether it belongs to the chapter's short answer, or to what it has in short."""
    above: nodes.Element | None = block
    while above is not None:
        is_short = isinstance(above, nodes.section) and above[0].astext() == SHORT
        if is_short or ANSWER in above.get("classes", ()):
            return True
        above = above.parent
    return False


def _insert(block: nodes.Element, at: int, sign: nodes.raw) -> None:
    """Put a mark into a block, behind so many characters; no line ends before it."""
    texts = _texts(block)
    for text, last in zip(texts, accumulate(map(len, texts)), strict=True):
        if at > last:
            continue
        whole = text.astext()
        if isinstance(text.parent, nodes.math | nodes.literal):
            above = text.parent.parent
            above.insert(above.index(text.parent) + 1, sign)
            return
        cut = len(whole) - (last - at)
        before = whole[:cut]
        word = re.split(r"\s", before)[-1]
        held = nodes.inline("", "", nodes.Text(word), sign, classes=["checked"])
        start = nodes.Text(before.removesuffix(word))
        text.parent.replace(text, [start, held, nodes.Text(whole[cut:])])
        return


def put_switch(doctree: nodes.document, hidden: int) -> None:
    """Below the page's title: the switch that shows the marks of the other sentences."""
    title = doctree.next_node(nodes.title)
    if not hidden or title is None:
        return
    switch = (
        '<label class="checks-switch"><input type="checkbox"> '
        f"show all checks ({hidden} more)</label>"
    )
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", switch, format="html"))


def fold_table(doctree: nodes.document, notebook: Mapping[str, Any]) -> None:
    """The cell with the table, folded under a line that says what it is."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code":
            continue
        outputs = notebook["cells"][cell["cell_index"]].get("outputs", ())
        for output in outputs:
            if checks := output.get("metadata", {}).get(METADATA, {}).get("checks"):
                holding = sum(check["holds"] for check in checks)
                line = f"Checked on this page: {holding} of {len(checks)} sentences hold"
                cell.update_all_atts(
                    {"hide_mode": "all", "prompt_show": line, "prompt_hide": line}, replace=True
                )


# ---- Numbers without a check ---------------------------------------------------------------------


def unheld(blocks: Sequence[nodes.Element], places: Iterable[Place]) -> Iterator[str]:
    """The numbers of a page's prose that stand in no checked words, in order."""
    held = defaultdict(list)
    for place in places:
        held[place.block].append(range(place.start, place.end))
    for number, block in enumerate(blocks):
        if _is_printed(block):
            continue
        for printed in numbers_in(_prose(block)):
            if not any(printed.start in words for words in held[number]):
                yield printed.text


def _is_printed(block: nodes.Element) -> bool:
    """Whether the page's code has printed it: what a cell shows, but for a figure's caption."""
    above = block.parent
    while above is not None and not isinstance(block, nodes.caption):
        if above.get("nb_element") == "cell_code_output":
            return True
        above = above.parent
    return False


def _prose(block: nodes.Element) -> str:
    """A block's text, in which letters stand for formulas, code, links and names."""
    return "".join(
        "x" * len(text) if _is_no_prose(text) else text.astext() for text in _texts(block)
    )


def _is_no_prose(text: nodes.Text) -> bool:
    above = text.parent
    while above is not None and not isinstance(above, _PROSE):
        if isinstance(above, _NO_PROSE):
            return True
        above = above.parent
    return False


# ---- Events --------------------------------------------------------------------------------------


def report(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: warn of what does not hold, and mark what is checked."""
    page = app.env.docname
    notebook = executed_notebook(app, page)
    for about in described(notebook):
        if fault := about.get("fault"):
            _LOGGER.warning(fault, location=page, type="lnattn", subtype="check")
    checks = list(recorded(notebook))
    if not checks:
        return
    blocks = prose_of(doctree)
    places = {check: place_of(blocks, check.words) for check in checks}
    for check, place in places.items():
        if not check.holds:
            _LOGGER.warning(check.message, location=page, type="lnattn", subtype="check")
        if place is None:
            message = f"No sentence of the page says ‘{check.words}’, which is checked."
            _LOGGER.warning(message, location=page, type="lnattn", subtype="check")
    placed = {check: place for check, place in places.items() if place is not None}
    without = list(unheld(blocks, placed.values()))
    put_switch(doctree, put_marks(blocks, placed))
    fold_table(doctree, notebook)
    app.env.metadata[page][COUNTS] = (len(places), without)


def tell(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`: how many sentences are checked, which numbers are not."""
    if error is not None:
        return
    counts = {page: about[COUNTS] for page, about in app.env.metadata.items() if about.get(COUNTS)}
    if counts:
        _LOGGER.info(f"{sum(checked for checked, _ in counts.values())} sentences are checked")
    for page, (_, without) in sorted(counts.items()):
        if without:
            named = ", ".join(without[:_NAMED]) + (", …" if len(without) > _NAMED else "")
            _LOGGER.info(f"{page}: {len(without)} numbers stand in no checked sentence: {named}")


def setup(app: Sphinx) -> None:
    """Register the events above."""
    app.connect("doctree-read", report, priority=300)  # before the page is put in order
    app.connect("build-finished", tell)
