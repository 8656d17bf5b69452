"""A small Sphinx extension: the explorer, which shows what heads do with a token or a text.

`{token-explorer} PART` marks where a part of it appears; `PARTS` and `IN_CHAPTERS` name them.
`{try-this}` links to a view. A page loads only the scripts of its parts;
`booksite.explorer.publishing` makes them and the data that they read.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.osutil import relative_uri
from sphinx.util.typing import OptionSpec

from booksite.explorer.publishing import (
    IN_CHAPTERS,
    LOADER,
    PARTS,
    STYLE,
    opening_scripts,
    publish,
    wanted_models,
)
from booksite.inputs import digest_of, files_below
from booksite.unchanged import digest_of_facts
from lnattn.storage import write_atomically

#: The page that has all views.
PAGE = "book/token-explorer"
_MARK = "token_explorer"
#: Sphinx's own scripts have 200, those of the theme and of extensions 500.
_BEFORE_OTHERS = 190


class TokenExplorer(SphinxDirective):
    """`{token-explorer} PART`: where a part of the explorer appears.

    Its content, such as a picture, is shown where scripts do not run. A part of `IN_CHAPTERS` takes
    the place of a figure of its page, which the option `figure` names, and has no content.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {"figure": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """An empty place, which the scripts fill."""
        part = self.arguments[0]
        known = (*PARTS, *IN_CHAPTERS)
        if part not in known:
            raise self.error(f"there is no part {part!r}; there are {', '.join(known)}.")
        if (part in IN_CHAPTERS) != ("figure" in self.options):
            raise self.error(f"{part}: `:figure: NAME` is for {', '.join(IN_CHAPTERS)}.")
        used = self.env.metadata[self.env.docname].get(_MARK, "").split()
        self.env.metadata[self.env.docname][_MARK] = " ".join([*used, part])
        if part in IN_CHAPTERS:
            names = html.escape(" ".join([STYLE, *IN_CHAPTERS[part]]))
            figure = html.escape(self.options["figure"])
            place = (
                f'<div class="token-explorer" data-part="{part}" data-figure="{figure}" '
                f'data-scripts="{names}"></div>'
            )
            return [nodes.raw("", place, format="html")]
        begin = f'<div class="token-explorer" data-part="{part}"><noscript>'
        still = nodes.container("", nodes.paragraph("", f"{PARTS[part][0]} needs JavaScript."))
        self.state.nested_parse(self.content, self.content_offset, still)
        raw = [nodes.raw("", text, format="html") for text in (begin, "</noscript></div>")]
        return [raw[0], *still.children, raw[1]]


class TryThis(SphinxRole):
    """`{try-this}`text=A cat&head=1``: a link to that view of the explorer."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The link; the view is what the explorer writes into the address."""
        view = urlencode(parse_qsl(self.text, strict_parsing=True))
        page = relative_uri(self.env.docname, PAGE)
        link = f'<a class="try-this" href="{page}.html#{view}">Try this in the explorer</a>'
        return [nodes.raw("", link, format="html")], []


def _is_used(env: BuildEnvironment) -> bool:
    return any(_MARK in facts for facts in env.metadata.values())


def publish_if_used(app: Sphinx, env: BuildEnvironment) -> None:
    """Sphinx's event `env-updated`: the data of a site that has an explorer."""
    if app.builder.format != "html" or not _is_used(env):
        return
    folder = Path(app.outdir) / "_static" / "explorer"
    models = wanted_models()
    # The chapters' execution cache belongs to one state of source, data and model.
    cache = getattr(app.config, "nb_execution_cache_path", "")
    here = Path(__file__).parent
    state = digest_of_facts([cache, models, digest_of(here, files_below(here), {})])
    # A file, for Sphinx forgets all it knew where any code of the site has changed.
    known = Path(app.doctreedir, f"explorer-{app.builder.name}.txt")
    if cache and folder.is_dir() and known.is_file() and known.read_text("ascii") == state:
        return
    try:
        publish(folder, models)
    except OSError as error:
        raise ExtensionError(f"the token explorer cannot be written: {error}") from error
    write_atomically(known, lambda file: file.write(state.encode()))


def load_scripts(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: Any
) -> None:
    """Sphinx's event `html-page-context`: scripts and styles of the page's parts, before others.

    What the front page's widget opens with is asked for with the page, and not by its scripts.
    """
    every = app.env.metadata.get(page, {}).get(_MARK, "").split()
    parts = [part for part in every if part in PARTS]
    if parts:
        app.add_css_file(f"explorer/{STYLE}")
    if len(parts) < len(every):
        app.add_js_file(f"explorer/{LOADER}", loading_method="defer")
    for name in dict.fromkeys(name for part in parts for name in PARTS[part][1]):
        app.add_js_file(f"explorer/{name}", loading_method="defer", priority=_BEFORE_OTHERS)
    if "widget" in parts:
        folder = f"{context['pathto']('_static', True)}/explorer"
        asked = [
            f'<link rel="preload" as="script" fetchpriority="low" href="{folder}/{name}" />'
            for name in opening_scripts(Path(app.outdir) / "_static" / "explorer")
        ]
        context["metatags"] = "\n".join([context.get("metatags", ""), *asked])


def setup(app: Sphinx) -> None:
    """Register the directive and the events above."""
    app.add_directive("token-explorer", TokenExplorer)
    app.add_role("try-this", TryThis())
    app.connect("env-updated", publish_if_used)
    app.connect("html-page-context", load_scripts)
