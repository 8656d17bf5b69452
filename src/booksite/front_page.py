"""What the front page shows of the chapters: their numbers and pictures, and the six terms drawn.

- `{result}` (a role): the text that a chapter glued, as `{result}`10-majority mj-level``;
- `{thumbnail}`: a small picture of a chapter's figure, named by its label;
- `{term-grid}`: the two-by-two grid of what meets what, and the two terms of a key alone;
- `{book-links}`: authors, the repository where its address is known, and a place for the PDF.

The chapters are read after the front page. So all four leave a mark that is filled when all pages
are there. A number or a figure that is not there is a warning, which the build treats as an error.
"""

from __future__ import annotations

import ast
import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.osutil import relative_uri

from booksite.pdf import OFFER
from lnattn.errors import ResultError
from lnattn.storage import read_json
from lnattn_book.style import TERM_COLOURS, TERM_NAMES

MARK = "lnattn_front_page"
_log = logging.getLogger(__name__)


class Result(SphinxRole):
    """`{result}`CHAPTER KEY``: a text that the chapter glued."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        remember(self.env)
        return [nodes.inline("", "", **{MARK: f"result {self.text}"})], []


class Mark(SphinxDirective):
    """Leaves a container that `fill` replaces; named by the directive and its argument."""

    optional_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        remember(self.env)
        return [nodes.container("", **{MARK: " ".join([self.name, *self.arguments])})]


def remember(env: BuildEnvironment) -> None:
    """Note that the present page has to be written in every build."""
    env.metadata[env.docname][MARK] = "yes"


def marked(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Sphinx's event `env-updated`: pages that show what other pages hold."""
    return [name for name in env.found_docs if MARK in env.metadata[name]]


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: put in what the marks stand for."""
    for mark in list(
        doctree.findall(lambda node: isinstance(node, nodes.Element) and MARK in node)
    ):
        what, *names = mark[MARK].split()
        try:
            if what == "result":
                mark.replace_self(nodes.Text(glued(Path(app.outdir).parent, *names)))
            elif what == "thumbnail":
                mark.replace_self(thumbnail(app, page, *names))
            elif what == "term-grid":
                mark.replace_self(nodes.raw("", term_grid(), format="html"))
            else:
                mark.replace_self(book_links(app))
        except ResultError as error:
            _log.warning("%s: %s", page, error, type="lnattn", subtype="front_page")
            mark.replace_self(nodes.Text("?"))


def glued(build: Path, chapter: str, key: str) -> str:
    """The text that a chapter glued under a key; `ResultError` where there is none."""
    path = build / "jupyter_execute" / "notebooks" / f"{chapter}.glue.json"
    outputs = read_json(path) if path.is_file() else {}
    if key not in outputs:
        raise ResultError(f"chapter {chapter} glues no {key!r}; name another result.")
    text = "".join(outputs[key]["data"]["text/plain"])
    return str(ast.literal_eval(text)) if text[:1] in "'\"" else text


# ---- Pictures ------------------------------------------------------------------------------------


def thumbnail(app: Sphinx, page: str, label: str) -> nodes.Node:
    """The figure's picture, shown small, with its alternative text; only HTML shows it."""
    image = next(figure_of(app.env, label).findall(nodes.image))
    picture = app.env.images.get(image["uri"])
    if app.builder.format != "html" or picture is None:
        return nodes.comment()
    app.builder.images[image["uri"]] = picture[1]
    source = relative_uri(app.builder.get_target_uri(page), f"{app.builder.imagedir}/{picture[1]}")
    alt = html.escape(image.get("alt", ""), quote=True)
    text = f'<img class="thumbnail" src="{source}" alt="{alt}" loading="lazy">'
    return nodes.raw("", text, format="html")


def figure_of(env: BuildEnvironment, label: str) -> nodes.Element:
    """The figure with this label in its chapter; `ResultError` where there is none."""
    labels = env.get_domain("std").data["anonlabels"]
    if label in labels:
        chapter, anchor = labels[label]
        for node in env.get_doctree(chapter).findall(nodes.figure):
            if anchor in node["ids"] and any(node.findall(nodes.image)):
                return node
    raise ResultError(f"no figure is labelled {label!r}; name another one.")


def term_grid() -> str:
    """The six terms as an SVG drawing, with the colours and names that they have everywhere."""
    rows = (("token", ("ee", "ep")), ("position", ("pe", "pp")), ("any query", ("e", "p")))
    parts = []
    for column, name in enumerate(("the key’s token", "the key’s position")):
        parts.append(f'<text x="{190 + 150 * column}" y="22" text-anchor="middle">{name}</text>')
    for row, (query, terms) in enumerate(rows):
        top = 36 + 62 * row + (14 if row == 2 else 0)
        label = query if row == 2 else f"its {query}"
        parts.append(f'<text x="104" y="{top + 32}" text-anchor="end">{label}</text>')
        for column, term in enumerate(terms):
            left, colour = 116 + 150 * column, TERM_COLOURS[term]
            middle = f'x="{left + 72}" text-anchor="middle"'
            parts.append(
                f'<rect x="{left}" y="{top}" width="144" height="54" rx="5" fill="{colour}" '
                f'fill-opacity="0.2" stroke="{colour}" stroke-width="2"/>'
                f'<text {middle} y="{top + 24}">{TERM_NAMES[term]}</text>'
                f'<text {middle} y="{top + 44}" font-style="italic">T'
                f'<tspan dy="-5" font-size="11">{term}</tspan></text>'
            )
    words = "; ".join(f"T {term}: {name}" for term, name in TERM_NAMES.items())
    return (
        '<svg class="term-grid" viewBox="0 0 420 242" role="img" '
        f'aria-label="Six boxes, one for each term. {words}." fill="currentColor" font-size="14">'
        f"{''.join(parts)}</svg>"
    )


# ---- Links ---------------------------------------------------------------------------------------


def book_links(app: Sphinx) -> nodes.paragraph:
    """Authors, repository, and where `booksite.pdf` puts its link once it has printed the book."""
    parts: list[nodes.Node] = [nodes.Text(f"By {app.config.author}.")]
    address = app.config.html_theme_options.get("repository_url", "")
    if address:
        parts += [nodes.Text(" "), _link("The repository", address), nodes.Text(".")]
    parts += [nodes.Text(" "), nodes.raw("", OFFER, format="html")]
    return nodes.paragraph("", "", *parts)


def _link(text: str, target: str) -> nodes.reference:
    return nodes.reference("", text, refuri=target)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role, the directives and the events above."""
    app.add_role("result", Result())
    for name in ("thumbnail", "term-grid", "book-links"):
        app.add_directive(name, Mark)
    app.connect("env-updated", marked)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
