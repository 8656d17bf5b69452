"""What search engines and previews read: a description and Open Graph tags.

Addresses in them must be whole, and a book that is built on a laptop does not know its own: set
LNATTN_SITE_URL to the address where it will be served (the workflow that publishes it does).
Without it, the addresses are relative to the site, which does no harm.
(sphinxext-opengraph, tried on five pages, put raw TeX into descriptions.)
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: The picture that stands for the book where a link to it is shared.
PREVIEW = "_static/preview.png"
PREVIEW_ALT = "The six terms of an attention score, as small maps, beside the title of the book."
LONGEST = 200

_NOT_PROSE = (nodes.table, nodes.literal_block, nodes.container, nodes.figure, nodes.footnote)


def description_of(doctree: nodes.document | None) -> str:
    """The page's first paragraph of prose, cut at a word; '' where there is none."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        above = paragraph.parent
        while above is not None and not isinstance(above, _NOT_PROSE):
            above = above.parent
        text = " ".join(paragraph.astext().split())
        if above is None and text:
            return shortened(text)
    return ""


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of at most `longest` characters, cut between two words."""
    if len(text) <= longest:
        return text
    return text[:longest].rsplit(" ", 1)[0].rstrip(",;:–") + "…"


def add_tags(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add the description and the Open Graph tags to one page's head."""
    title = html.unescape(re.sub(r"<[^>]+>", "", context.get("title") or app.config.project))
    about = description_of(doctree) or app.config.html_title or app.config.project
    address = app.config.html_baseurl.rstrip("/")
    picture = f"{address}/{PREVIEW}" if address else context["pathto"](PREVIEW, True)
    tags = {
        "og:type": "article" if doctree else "website",
        "og:title": title,
        "og:description": about,
        "og:site_name": app.config.html_title or app.config.project,
        "og:image": picture,
        "og:image:alt": PREVIEW_ALT,
    }
    if address:
        tags["og:url"] = f"{address}/{page}.html"
    made = [_tag("name", "description", about), _tag("name", "twitter:card", "summary_large_image")]
    made += [_tag("property", name, value) for name, value in tags.items()]
    context["metatags"] = "\n".join([context.get("metatags", ""), *made])


def _tag(kind: str, name: str, value: str) -> str:
    return f'<meta {kind}="{name}" content="{html.escape(value)}" />'


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add_tags)
