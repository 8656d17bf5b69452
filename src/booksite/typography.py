"""Signs that plain text has no key for, set as the book sets them elsewhere.

Verdicts, tables that pandas writes and docstrings are plain text, also on a terminal: `T^ee`,
`W_QK`, `-0.35`, `5e-07`. On a page of the site the first two are symbols, with their letters
raised as in an equation, and the others have a minus sign, at which no line breaks. A model has the
name that readers know. Code, formulas and signatures stay as they are, and so do names of
parameters on the pages of the reference.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

from lnattn.book.style import MODEL_NAMES

#: What is no prose: whole elements, and tags. All else is text.
_PARTS = re.compile(
    r"<(pre|code|script|style|svg|textarea)\b.*?</\1>"
    r'|<(span|div) class="math\b.*?</\2>|<dt class="sig\b.*?</dt>|<!--.*?-->|<[^>]*>|([^<]+)',
    re.DOTALL,
)
_TERM = re.compile(r"\bT\^(ee|ep|pe|pp|ed|e|p|d)\b")
_MAP = re.compile(r"\b([Wb])(['′’]?)_(QK|VO|[QKVO])\b")
_PART = re.compile(r"\b([Wep])_(in|out|\d)\b")
_MINUS = re.compile(r"(?<![^\s(\[,;:])-(?=\d)")
_POWER = re.compile(r"(?<=\d)e-(?=\d\d\b)")
_ZERO = re.compile(r"(?<![\d.])0e\+00\b")
_MODEL = re.compile(rf"(?<![\w./-])({'|'.join(MODEL_NAMES)})(?![\w/-])")
#: Pages on which `W_Q` is the name of an argument.
_REFERENCE = ("book/api", "_modules/")


def typeset(body: str, reference: bool = False) -> str:
    """A page's HTML with symbols and minus signs in its text.

    reference: a page on which W_Q and -1 are Python's; of those only the terms are set.
    """
    return _PARTS.sub(lambda part: _text(part[3], reference) if part[3] else part[0], body)


def _text(text: str, reference: bool) -> str:
    text = _TERM.sub(r"<i>T<sup>\1</sup></i>", text)
    if reference:
        return text
    text = _MAP.sub(lambda m: f"<i>{m[1]}{'′' if m[2] else ''}<sup>{m[3]}</sup></i>", text)
    text = _MODEL.sub(lambda m: MODEL_NAMES[m[1]], text)
    text = _PART.sub(r"<i>\1<sub>\2</sub></i>", text)
    return _ZERO.sub("0", _POWER.sub("e−", _MINUS.sub("−", text)))


def set_page(_app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Sphinx's event `html-page-context`."""
    if context.get("body"):
        context["body"] = typeset(context["body"], reference=page.startswith(_REFERENCE))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", set_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
