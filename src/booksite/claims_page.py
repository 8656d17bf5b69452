"""The claims page, and the sentence that sums it up: a Sphinx extension.

- `{claims-bars}`: the claims of each of the two papers by verdict, and a sentence on them;
- `{claims-table}`: every claim in a line, with a sign for each model and, unfolded, what was found;
- `{claims-summary}` (a role; its text is ignored): that sentence.

A page is read before all chapters have run, so all leave a mark that is filled at the end. Then
claims are checked: one left out by its chapter, or a number that differs from the frozen one, is a
warning, and the build treats warnings as errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from booksite import links
from booksite.claims_tables import bar, matrix
from booksite.executed import registered
from lnattn.models.choice import default_model
from lnattn.paths import FROZEN_CLAIMS
from lnattn.storage import write_json
from lnattn_book.claims import frozen, ledger
from lnattn_book.claims.listed import SOURCES, claims
from lnattn_book.claims.tally import PAPERS, sentence, tally
from lnattn_book.claims.verdicts import Record

MARK = "lnattn_claims"
_log = logging.getLogger(__name__)


class Mark(SphinxDirective):
    """Leaves a container that `fill` replaces; the directive's name says by what."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        self.env.metadata[self.env.docname][MARK] = "mathematics"  # written in every build
        return [nodes.container("", **{MARK: self.name})]


class SummaryRole(SphinxRole):
    """Leaves an inline mark that `fill` replaces by the sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        self.env.metadata[self.env.docname].setdefault(MARK, "text")
        return [nodes.inline("", "", **{MARK: "claims-summary"})], []


def gather(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Read what the chapters registered, check it, and name the pages to be written again."""
    folder = Path(app.outdir).parent / "jupyter_execute"
    found = registered(folder, sorted(env.found_docs))
    setattr(app, MARK, found)
    for problem in problems(found, env.found_docs, Path(app.srcdir)):
        _log.warning("%s", problem, type="lnattn", subtype="claims")
    marked = [name for name in env.found_docs if MARK in env.metadata[name]]
    has_equations = env.get_domain("math").data["has_equations"]
    for name in marked:
        if env.metadata[name][MARK] == "mathematics":
            has_equations[name] = True  # else Sphinx leaves MathJax out of the page
    return marked


def problems(found: list[Record], pages: Iterable[str], root: Path) -> list[str]:
    """What must not be: claims that a chapter of this book forgets, and numbers that changed."""
    pages = set(pages)
    chapters = {name.split("/")[-1] for name in pages}
    named = {entry.claim for entry in found}
    said = [
        f"claim {claim.id} belongs to chapter {claim.chapter}, which does not register it"
        for claim in claims().values()
        if claim.chapter in chapters and claim.id not in named
    ]
    said += frozen.two_verdicts(found)
    _, before = frozen.frozen_records(root / FROZEN_CLAIMS, default_model().name)
    changed = list(frozen.differences(before, found, pages))
    if changed:
        changed[-1] += "; where the change is meant, freeze the claims anew: make freeze-claims"
    return said + changed


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put the bars, the matrix and the sentence where their marks are."""
    found: list[Record] = getattr(app, MARK, [])
    counts = tally(claims().values(), found, default_model().name)
    for mark in [node for node in doctree.findall(nodes.Element) if MARK in node]:
        if mark[MARK] == "claims-summary":
            mark.replace_self(nodes.Text(sentence(counts)))
        elif mark[MARK] == "claims-bars":
            bars = [bar(SOURCES[letter], counts[letter]) for letter in PAPERS]
            mark.replace_self(nodes.container("", *bars, nodes.paragraph("", sentence(counts))))
        else:
            mark.replace_self(matrix(app, page, found))


def load_assets(app: Sphinx, page: str, _template: str, context: dict, _doctree: Any) -> None:
    """Load the filter on the claims page only."""
    if app.env.metadata.get(page, {}).get(MARK) == "mathematics":
        app.add_js_file("lnattn/claims.js", loading_method="defer")
        app.add_css_file("lnattn/claims.css")


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write `claims.json`: what the page shows, as data, the same bytes for the same numbers."""
    if exception is None and app.builder.format == "html":
        found: list[Record] = getattr(app, MARK, [])
        model = default_model().name
        counts = tally(claims().values(), found, model)
        record = {
            "model": model,
            "summary": sentence(counts),
            "verdicts": counts,
            "claims": ledger.report(claims().values(), found),
        }
        write_json(Path(app.outdir) / "claims.json", record)


def setup(app: Sphinx) -> dict[str, Any]:
    for name in ("claims-bars", "claims-table"):
        app.add_directive(name, Mark)
    app.add_role("claims-summary", SummaryRole())
    app.connect("doctree-read", links.name_cells)
    app.connect("env-updated", gather)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", load_assets)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
