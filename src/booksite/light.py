"""What the theme would make every page load without any use.

- Icons come twice, as a font and as a script of 1.5 MB that draws them again. The font is enough,
  and of that a small part (see `icons`).
- What is for some pages only, MathJax first of all, is loaded by those; every page has MathJax's
  settings, for a note about a formula brings it when it is opened (`assets/reading.js`).
- The search and its index are loaded by the page of results only (see `templates/layout.html`).

And what it would make again for every page of source code: the contents in the sidebar, a fifth of
a second for each of two hundred pages, though nothing in them depends on the page but its depth.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

TEMPLATES = Path(__file__).with_name("templates")
_ICONS = Path("_static", "scripts", "fontawesome.js")
_EMPTY = "/* The icons come from the theme's font; its script would draw the same ones again. */\n"
#: Where viewcode puts its pages: no contents lead there, so none of them is marked as open.
_SOURCES = "_modules/"
#: Parts of the names of scripts and styles, and what the HTML of a page holds that needs them.
_NEEDED_FOR = {
    "mathjax/": ('class="math', "mathjax_process", "\\(", "\\["),
    "clipboard.min": ('class="highlight',),
    "copybutton": ('class="highlight',),
    "togglebutton": ('class="toggle', " toggle", "dropdown admonition", "admonition dropdown"),
    "design-tabs": ("sd-tab",),
    "sphinx-design": ("sd-",),
    "mystnb.": ('class="cell', "pasted-"),
}
#: Notes wait for a reader, and bring what they need.
_NOTE = re.compile(r'data-note="[^"]*"')


def unneeded(body: str) -> list[str]:
    """Of `_NEEDED_FOR`, what a page with this HTML does without."""
    body = _NOTE.sub("", body)
    return [part for part, signs in _NEEDED_FOR.items() if not any(sign in body for sign in signs)]


def drop_unneeded(_app: Any, _page: str, _template: str, context: dict[str, Any], *_: Any) -> None:
    """Sphinx's event `html-page-context`, after all that add scripts and styles."""
    parts = unneeded(context.get("body") or "")
    for files in (context["script_files"], context["css_files"]):  # Sphinx's own: changed in place
        files[:] = [file for file in files if not any(part in _name(file) for part in parts)]


class SharedContents:
    """Pages of source code of one depth share the contents that the first of them makes.

    The theme's handler of `html-page-context` makes the sidebar of every page, to see which of its
    parts are empty: what it found for the first page is kept from it by `take` and given back by
    `put`, which come before it and after it.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.made: dict[tuple[Any, ...], Any] = {}

    def take(self, _app: Any, page: str, _template: str, context: dict[str, Any], *_: Any) -> None:
        if page.startswith(_SOURCES) and self.parts:
            context["sidebars"] = []

    def put(self, _app: Any, page: str, _template: str, context: dict[str, Any], *_: Any) -> None:
        make = context.get("generate_toctree_html")
        if make is None or not page.startswith(_SOURCES):
            return
        depth = page.count("/")

        def contents(*parts: Any, **options: Any) -> Any:
            key = (depth, *parts, *sorted(options.items()))
            if key not in self.made:
                self.made[key] = make(*parts, **options)
            return self.made[key]

        self.parts = context["sidebars"] = context["sidebars"] or self.parts
        context["generate_toctree_html"] = contents


def _name(file: Any) -> str:
    return str(getattr(file, "filename", file) or "")


def lighten(folder: Path) -> None:
    """Take the icons' script out of a built site; its address stays, for the theme names it."""
    if (folder / _ICONS).is_file():
        (folder / _ICONS).write_text(_EMPTY, encoding="ascii")


def use_templates(_app: Sphinx, config: Any) -> None:
    """Sphinx's event `config-inited`: this package's templates go before the theme's."""
    config.templates_path.insert(0, str(TEMPLATES))


def when_finished(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`."""
    if error is None and app.builder.format == "html":
        lighten(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the event handlers above."""
    app.connect("config-inited", use_templates)
    app.set_html_assets_policy("always")
    app.connect("html-page-context", drop_unneeded, priority=900)
    shared = SharedContents()
    app.connect("html-page-context", shared.take, priority=400)
    app.connect("html-page-context", shared.put, priority=900)
    app.connect("build-finished", when_finished)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
