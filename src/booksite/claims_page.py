"""The claims page: a Sphinx extension.

- `{claims-bars}`: the claims of each of the two papers by verdict, and a sentence on them;
- `{claims-table}`: every claim in a line, with a sign for each model and, unfolded, what was found;
- `{claims-aside}`: a paragraph for each claim that is open and likely to remain so;
- `{claims-checks}`: how many have a second way to their number, a fragile verdict, a changed rule;
- `{claims-changed}`: whose rules were changed when numbers were known, with both verdicts;
- `{claims-machines}`: the machines that sent what a build of theirs gave, see `tools/attest.py`.

A page is read before all chapters have run, so all leave a mark that is filled at the end. Then
claims are checked: one left out by its chapter, or a number that differs from the frozen one, is a
warning, and the build treats warnings as errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from booksite import links
from booksite.claims_tables import bar, changed_rules, machines, matrix, paragraphs
from booksite.executed import registered
from booksite.unchanged import has_changed
from lnattn.models.choice import FALLBACK, default_model
from lnattn.storage import read_json, write_json
from lnattn_book.claims import frozen
from lnattn_book.claims.listed import SOURCES, Claim, claims
from lnattn_book.claims.tally import PAPERS, caveats, sentence, tally
from lnattn_book.claims.verdicts import Record
from lnattn_book.page.places import ATTESTATIONS, FROZEN_CLAIMS

MARK = "lnattn_claims"
_log = logging.getLogger(__name__)


class ClaimsMark(SphinxDirective):
    """Leaves a container that `fill` replaces; the directive's name says by what."""

    def run(self) -> list[nodes.Node]:
        self.env.metadata[self.env.docname][MARK] = "yes"  # written in every build
        return [nodes.container("", **{MARK: self.name})]


def gather(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Read what the chapters registered, check it, and name the pages to be written again."""
    folder = Path(app.outdir).parent / "jupyter_execute"
    records = registered(folder, sorted(env.found_docs))
    setattr(app, MARK, records)
    for problem in problems(records, env.found_docs, Path(app.srcdir)):
        _log.warning("%s", problem, type="lnattn", subtype="claims")
    marked = [name for name in env.found_docs if MARK in env.metadata[name]]
    for name in marked:  # else Sphinx leaves MathJax out of the page
        env.get_domain("math").data["has_equations"][name] = True
    root = Path(app.srcdir)
    shown = sorted((root / ATTESTATIONS).glob("*.json"))
    cells = {page: about.get(links.CELLS) for page, about in env.metadata.items()}
    labels = env.get_domain("std").data["anonlabels"]
    files = [(path.name, path.read_bytes()) for path in shown]
    held = frozen.frozen_records(root / FROZEN_CLAIMS, FALLBACK)
    if not has_changed(app, "claims", records, cells, labels, files, held, list(claims().values())):
        return []
    return marked


def problems(records: list[Record], pages: Iterable[str], root: Path) -> list[str]:
    """What must not be: claims that a chapter of this book forgets, and numbers that changed."""
    chapters = {name.split("/")[-1] for name in pages}
    said = [
        f"claim {claim.id} belongs to chapter {claim.chapter}, which does not register it"
        for claim in claims().values()
        if claim.chapter in chapters and claim.id not in {entry.claim for entry in records}
    ]
    said += frozen.two_verdicts(records)
    _, before = frozen.frozen_records(root / FROZEN_CLAIMS, default_model().name)
    changed = list(frozen.differences(before, records, pages))
    if changed:
        changed[-1] += "; where the change is meant, freeze the claims anew: make freeze-claims"
    return said + changed


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put what was found where its marks are."""
    marks = [node for node in doctree.findall(nodes.Element) if MARK in node]
    if not marks:
        return
    records: list[Record] = getattr(app, MARK, [])
    counts = tally(claims().values(), records, default_model().name)
    root = Path(app.srcdir)
    for mark in marks:
        if mark[MARK] == "claims-bars":
            bars = [bar(SOURCES[letter], counts[letter]) for letter in PAPERS]
            limits = caveats(of_the_papers(), records, default_model().name).sentence
            said = nodes.paragraph("", f"{sentence(counts)} {limits}")
            new: nodes.Node = nodes.container("", *bars, said)
        elif mark[MARK] == "claims-table":
            new = matrix(app, page, records)
        elif mark[MARK] == "claims-aside":
            new = paragraphs(app, page, records)
        elif mark[MARK] == "claims-checks":
            new = nodes.paragraph("", checks(records))
        elif mark[MARK] == "claims-changed":
            new = changed_rules(records)
        else:
            held = frozen.frozen_records(root / FROZEN_CLAIMS, FALLBACK)[1]
            sent = map(read_json, sorted((root / ATTESTATIONS).glob("*.json")))
            new = machines(sent, verdicts_of(held), hash_of(verdicts_of(held)))
        mark.replace_self(new)


def of_the_papers() -> list[Claim]:
    """The claims of the two papers."""
    return [claim for claim in claims().values() if claim.id[0] in PAPERS]


def checks(records: Sequence[Record]) -> str:
    """How many claims have a second way to their number, a fragile verdict, a changed rule."""
    second = sum(bool(claim.second) for claim in claims().values())
    limits = caveats(claims().values(), records, default_model().name)
    return (
        f"For {second} of the {len(claims())} claims another program gives the number as well: "
        "another library, the slow and plain one or the authors' algorithm, and a test holds it. "
        f"{limits.sentence}"
    )


def verdicts_of(records: Iterable[Record]) -> dict[str, str]:
    """'K1 on MODEL' → verdict."""
    return dict(sorted((f"{record.claim} on {record.model}", record.verdict) for record in records))


def hash_of(verdicts: Mapping[str, str]) -> str:
    """SHA-256 over the verdicts of a build."""
    return hashlib.sha256(json.dumps(sorted(verdicts.items())).encode()).hexdigest()


def load_assets(app: Sphinx, page: str, _template: str, context: dict, _doctree: Any) -> None:
    """Load the filter on the claims page only."""
    if MARK in app.env.metadata.get(page, {}):
        app.add_js_file("lnattn/claims.js", loading_method="defer")
        app.add_css_file("lnattn/claims.css")


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write `claims.json`: what the page shows, as data, the same bytes for the same numbers."""
    if exception is None and app.builder.format == "html":
        records = getattr(app, MARK, [])
        model = default_model().name
        record = {
            "model": model,
            "summary": sentence(tally(claims().values(), records, model)),
            "claims": [
                {
                    **asdict(about),
                    "found": [asdict(record) for record in records if record.claim == name],
                }
                for name, about in claims().items()
            ],
        }
        write_json(Path(app.outdir) / "claims.json", record)


def setup(app: Sphinx) -> None:
    for name in ("bars", "table", "aside", "checks", "changed", "machines"):
        app.add_directive(f"claims-{name}", ClaimsMark)
    app.connect("doctree-read", links.name_cells)
    app.connect("env-updated", gather)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", load_assets)
    app.connect("build-finished", write_data)
