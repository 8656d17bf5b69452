"""What the guards of a page found: a warning where one does not hold, a mark at each sentence.

`page.holds` leaves what it found in the executed notebook (`lnattn_book.page.guards`). The words it
checks are looked for in the page's own text. Behind them stands a small mark that opens the
assertion: what was asked, as it stands in the code, and what was found. It is a button with a
popover, so it works without JavaScript; a `details` would end the paragraph. It does not make its
line higher, and print leaves it out.

A guard that does not hold is a Sphinx warning, with which `-W` fails. Words that stand nowhere on
their page have no mark; the build counts them.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from booksite import open_code
from booksite.downloads import executed
from lnattn.storage import read_json
from lnattn_book.page.guards import Guard, read

#: Where the counts of a page are kept in Sphinx's metadata: guards, and marks among them.
COUNTS = "lnattn_guards"
#: And of its guards, by where their names are bound (`open_code`).
BOUND = "lnattn_guards_bound"
#: What stands between two parts of a checked sentence that lie apart.
GAP = "…"
#: Quotation marks as prose is typed: the page has printers' ones.
_PLAIN = str.maketrans("‘’“”", "''\"\"")
_LOGGER = logging.getLogger(__name__)
#: Parts of a page that hold prose, and may carry a mark.
_PROSE = (nodes.paragraph, nodes.term, nodes.caption)


def executed_notebook(app: Sphinx, page: str) -> dict[str, Any]:
    """The executed notebook of a page; one without cells for a page that runs no code."""
    path = executed(app, page)
    return read_json(path) if path.is_file() else {"cells": []}


def mark(guard: Guard, name: str) -> str:
    """The mark of a checked sentence, as HTML; name: what the page calls its note."""
    sign = "✓" if guard.holds else "✗"
    state = "holds" if guard.holds else "fails"
    rows = [("asked", f"<code>{html.escape(guard.asked)}</code>" if guard.asked else "")]
    rows.append(("found", html.escape(guard.found)))
    inner = "".join(
        f'<span class="guard-row">{label}: {text}</span>' for label, text in rows if text
    )
    words = html.escape(guard.sentence)
    return (
        f'<button type="button" class="guard guard-{state}" popovertarget="{name}" '
        f'aria-label="checked by the code of this page: {words}">{sign}</button>'
        f'<span popover id="{name}" class="guard-note">'
        f'<span class="guard-row">The page says: ‘{words}’</span>{inner}</span>'
    )


def prose_of(doctree: nodes.document) -> list[nodes.Element]:
    """The parts of a page whose sentences may carry a mark, in order."""
    return list(doctree.findall(lambda node: isinstance(node, _PROSE)))


def place(blocks: Iterable[nodes.Element], guard: Guard, name: str) -> bool:
    """Put a guard's mark behind its words, in the first of the blocks that has them; if any has."""
    pattern = _pattern(guard.sentence)
    for block in blocks:
        texts = list(_texts(block))
        match = pattern.search("".join(texts).translate(_PLAIN))
        if match is None:
            continue
        for text, last in zip(texts, accumulate(map(len, texts)), strict=True):
            if match.end() <= last:
                made = nodes.raw("", mark(guard, name), format="html")
                _split(text, len(text) - (last - match.end()), made)
                return True
    return False


def _texts(block: nodes.Element) -> Iterator[nodes.Text]:
    """The texts of a block, but for those of marks that stand there already."""
    return (text for text in block.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))


def _pattern(sentence: str) -> re.Pattern[str]:
    """What finds checked words in a text, the point behind them included."""
    parts = sentence.translate(_PLAIN).split(GAP)
    patterns = (re.escape(part).replace(r"\ ", r"\s+") for part in parts)
    return re.compile(".*?".join(patterns) + r"[.,;:]?", re.IGNORECASE | re.DOTALL)


def _split(text: nodes.Text, at: int, sign: nodes.raw) -> None:
    """Put a mark into a text, behind so many of its characters; no line ends before it."""
    before = str(text)[:at]
    word = re.split(r"\s", before)[-1]
    held = nodes.inline("", "", nodes.Text(word), sign, classes=["guarded"])
    start = nodes.Text(before.removesuffix(word))
    text.parent.replace(text, [start, held, nodes.Text(str(text)[at:])])


def report(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx's event `doctree-read`: warn of what does not hold, and mark what is checked."""
    page = app.env.docname
    notebook = executed_notebook(app, page)
    guards = list(read(notebook))
    for guard in guards:
        if guard.holds is False:
            _LOGGER.warning(guard.message, location=page, type="lnattn", subtype="guard")
    asked = [guard for guard in guards if guard.holds is not None]
    blocks = prose_of(doctree) if asked else []
    marked = sum(place(blocks, guard, f"guard-{no}") for no, guard in enumerate(asked))
    app.env.metadata[page][COUNTS] = (len(guards), marked)
    if guards:
        app.env.metadata[page][BOUND] = open_code.counts(notebook["cells"])


def tell(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`: how many sentences are checked, how many bear a mark."""
    counts = [about.get(COUNTS, (0, 0)) for about in app.env.metadata.values()]
    checked, marked = map(sum, zip((0, 0), *counts, strict=True))
    if checked and error is None:
        _LOGGER.info(f"{checked} sentences are checked, {marked} of them with a mark at the words")
        bound = (about.get(BOUND, Counter()) for about in app.env.metadata.values())
        _LOGGER.info(open_code.told(sum(bound, Counter())))


def setup(app: Sphinx) -> None:
    """Register the events above."""
    app.connect("doctree-read", report, priority=300)  # before the page is put in order
    app.connect("build-finished", tell)
