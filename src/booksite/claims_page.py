"""The claims page, the tests behind it, and the sentence that sums it up: a Sphinx extension.

- `{claims-table}`: every claim, with what each model gave and links to what computed it;
- `{claims-by-model}`: how many records each model has, by verdict;
- `{claims-seeds}`: which verdicts on the book's model were also asked of shorter trainings;
- `{claims-summary}` (a role; its text is ignored): the sentence 'n of m claims hold on …';
- `{claim-tests}`: the source of the test of each claim.

A page is read in alphabetical order with the others, before the chapters have run. So the first
four leave a mark that is filled when all chapters are there, in every build anew. Then the claims
are checked too: a chapter of the book that leaves one of its claims out, or a number that differs
from the frozen one, is a warning, and the build treats warnings as errors.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from booksite import links
from booksite.executed import registered
from booksite.sources import source_of
from booksite.text import inline
from lnattn.claims import frozen as frozen_claims
from lnattn.claims import ledger, seeds
from lnattn.claims.ledger import Entry
from lnattn.claims.listed import Claim, claims
from lnattn.claims.tally import by_model, own_first, tally, two_verdicts
from lnattn.claims.verdicts import VERDICTS, listed_words
from lnattn.errors import ResultError
from lnattn.models.choice import default_model
from lnattn.storage import write_json

MARK = "lnattn_claims"
_log = logging.getLogger(__name__)


class Mark(SphinxDirective):
    """Leaves a container that `fill` replaces; the directive's name says by what."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        remember(self.env, has_mathematics=True)
        return [nodes.container("", **{MARK: self.name})]


class SummaryRole(SphinxRole):
    """Leaves an inline mark that `fill` replaces by the sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        remember(self.env)
        return [nodes.inline("", "", **{MARK: "claims-summary"})], []


class ClaimTests(SphinxDirective):
    """The source of every claim's test, in the order of the claims."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        remember(self.env, has_mathematics=True)
        root, made = Path(self.env.srcdir), []
        for claim in claims().values():
            if claim.test is None:
                continue
            try:
                test = source_of(claim.test, root)
            except ResultError as error:
                _log.warning("%s", error, location=self.get_location(), type="lnattn")
                continue
            self.env.note_dependency(str(test.path))
            code = nodes.literal_block(test.text, test.text, language="python")
            code["classes"].append("claim-test")
            named = nodes.paragraph(
                "", "", nodes.strong("", f"{claim.id} "), *inline(claim.statement)
            )
            where = links.in_repository(self.config, test.name, test.path, root, test.line)
            parts = (named, nodes.paragraph("", "", where), code)
            made.append(nodes.container("", *parts, ids=[test_id(claim)]))
        return made


def remember(env: BuildEnvironment, has_mathematics: bool = False) -> None:
    """Note that the present page has to be written in every build."""
    env.metadata[env.docname][MARK] = "mathematics" if has_mathematics else "text"


def test_id(claim: Claim) -> str:
    return f"test-{claim.id.lower()}"


def row_id(claim: Claim) -> str:
    return f"claim-{claim.id.lower()}"


# --- when all chapters are there --------------------------------------------------------------


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


def problems(found: list[Entry], pages: Iterable[str], root: Path) -> list[str]:
    """What must not be: claims that a chapter of this book forgets, and numbers that changed."""
    pages, model = set(pages), default_model().name
    chapters = {name.split("/")[-1] for name in pages}
    named = {entry.id for entry in found}
    said = [
        f"claim {claim.id} belongs to chapter {claim.chapter}, which does not register it"
        for claim in claims().values()
        if claim.chapter in chapters and claim.id not in named
    ]
    said += two_verdicts(found)
    frozen = frozen_claims.read_frozen(model, root)
    if frozen is None:
        _log.info("no claims are frozen for %s; there is nothing to compare with", model)
        return said
    changed = list(frozen_claims.differences(frozen, found, pages))
    if changed:
        changed[-1] += "; where the change is meant, freeze the claims anew: make freeze-claims"
    fresh = frozen_claims.not_frozen(frozen, found)
    if fresh:
        names = ", ".join(f"{entry.id} on {entry.model}" for entry in fresh)
        _log.info("not frozen yet (make freeze-claims): %s", names)
    return said + changed


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put the table, the counts and the sentence where their marks are."""
    found: list[Entry] = getattr(app, MARK, [])
    for mark in list(
        doctree.findall(lambda node: isinstance(node, nodes.Element) and MARK in node)
    ):
        what = mark[MARK]
        if what == "claims-summary":
            mark.replace_self(nodes.Text(the_tally(found).sentence()))
        elif what == "claims-by-model":
            mark.replace_self(counts_table(found))
        elif what == "claims-seeds":
            mark.replace_self(about_seeds(app, page, found, default_model().name))
        else:
            mark.replace_self(claims_table(app, page, found))


def the_tally(found: list[Entry]) -> Any:
    return tally(claims().values(), found, default_model().name)


def claims_table(app: Sphinx, page: str, found: list[Entry]) -> nodes.container:
    """All claims, one row each: what is said, the rule, and a chip for each model asked."""
    rows = []
    for claim in claims().values():
        mine = own_first(claim, (entry for entry in found if entry.id == claim.id))
        stated = [nodes.strong("", claim.id), nodes.Text(f" ({claim.source}, {claim.section}) ")]
        rules = list(dict.fromkeys(entry.rule for entry in mine if entry.rule))
        ruled = inline(rules[0]) if len(rules) == 1 else [nodes.Text("–")]
        row = nodes.row(
            "",
            _cell([*stated, *inline(claim.statement)]),
            _cell(inline(claim.reported)),
            _cell([nodes.Text("beside each")] if len(rules) > 1 else ruled),
            _chips(app, page, claim, mine, with_rules=len(rules) > 1),
            ids=[row_id(claim)],
        )
        row["classes"] = [f"from-{claim.id[0]}"]
        rows.append(row)
    head = ("Claim", "Reported", "Holds if", "Found here")
    return nodes.container("", table(head, (30, 17, 18, 35), rows), classes=["claims-all"])


def _chips(
    app: Sphinx, page: str, claim: Claim, mine: list[Entry], *, with_rules: bool
) -> nodes.entry:
    """A chip for each record: verdict and model; unfolded, its number, its note and its links.

    The first is of the model that the claim is about, else of the one that this copy was built on;
    it is unfolded at once.
    """
    if not mine:
        look = links.of_claim(app, page, claim, None, test_id(claim))
        return _cell([nodes.Text("not yet registered · "), *look])
    parts: list[nodes.Node] = []
    built_on = default_model().name
    for entry in sorted(mine, key=lambda one: (one.model != claim.model, one.model != built_on)):
        words = f"{VERDICTS[entry.verdict]} {entry.verdict}"
        unfolded = "" if parts else " open"
        model = html.escape(entry.model, quote=True)
        opening = (
            f'<details class="chip {_verdict_class(entry)}" data-model="{model}"{unfolded}>'
            f"<summary>{words} · {model}</summary>"
        )
        note = [nodes.Text(" "), *inline(entry.note)] if entry.note else []
        rule = [nodes.Text(" Rule: "), *inline(entry.rule)] if with_rules and entry.rule else []
        look = links.of_claim(app, page, claim, entry, test_id(claim))
        parts += [
            nodes.raw("", opening, format="html"),
            nodes.paragraph("", "", nodes.strong("", "", *inline(entry.reproduced)), *note, *rule),
            nodes.paragraph("", "", *look, classes=["look-at"]),
            nodes.raw("", "</details>", format="html"),
        ]
    return nodes.entry("", *parts)


def _verdict_class(entry: Entry) -> str:
    return f"verdict-{entry.verdict.replace(' ', '-')}"


def counts_table(found: list[Entry]) -> nodes.table:
    """Records by model and verdict."""
    rows = [
        nodes.row("", *(_cell([nodes.Text(text)]) for text in (model, *map(str, counts.values()))))
        for model, counts in by_model(found).items()
    ]
    head = ("Model", *(f"{mark} {verdict}" for verdict, mark in VERDICTS.items()))
    return table(head, (40, *(60 // len(VERDICTS) for _ in VERDICTS)), rows)


def about_seeds(app: Sphinx, page: str, found: list[Entry], model: str) -> list[nodes.Node]:
    """Which claims were asked of shorter trainings of a model too; nothing where none were."""
    shorter = seeds.of_model(model)
    if shorter is None:
        return []
    asked = dict.fromkeys(entry.id for entry in found if entry.model == model)
    others = [claim_id for claim_id in asked if claim_id not in shorter.claims]
    runs = listed_words(str(run.seed) for run in shorter.runs)
    said = (
        f"Asked of shorter trainings of {model} too, with seeds {runs}: "
        f"{listed_words(shorter.claims)}. What these gave stands beside the verdict. They are the "
        "claims that the first layer's weights decide together with counts of the text."
    )
    if others:
        said += (
            f" Not asked of them: {listed_words(others)}. Of these the identities hold for any "
            "weights, which tests show on random ones; the others take the whole model, or the "
            "whole of its training."
        )
    text: list[nodes.Node] = [nodes.Text(said)]
    labels = app.env.get_domain("std").data["anonlabels"]
    if "sec-seeds" in labels:
        target, anchor = labels["sec-seeds"]
        told = links.link(app, page, target, anchor, "chapter 00")
        text += [nodes.Text(" Where they disagree with the model, "), told, nodes.Text(" says.")]
    return [nodes.paragraph("", "", *text)]


def table(head: Iterable[str], widths: Iterable[int], rows: list[nodes.row]) -> nodes.table:
    top = nodes.row("", *(_cell([nodes.Text(text)]) for text in head))
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(top))
    group += nodes.thead("", top)
    group += nodes.tbody("", *rows)
    return nodes.table("", group)


def _cell(content: list[nodes.Node]) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", *content))


# --- files ------------------------------------------------------------------------------------


def load_assets(app: Sphinx, page: str, _template: str, context: dict, _doctree: Any) -> None:
    """Load the filter on the claims page only."""
    if app.env.metadata.get(page, {}).get(MARK) == "mathematics":
        app.add_js_file("lnattn/claims.js", loading_method="defer")
        app.add_css_file("lnattn/claims.css")


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write `claims.json`: what the page shows, as data, the same bytes for the same numbers."""
    if exception is None and app.builder.format == "html":
        found: list[Entry] = getattr(app, MARK, [])
        count = the_tally(found)
        record = {
            "model": count.model,
            "summary": count.sentence(),
            "verdicts": count.as_data(),
            "claims": ledger.report(claims().values(), found),
        }
        write_json(Path(app.outdir) / "claims.json", record)


def setup(app: Sphinx) -> dict[str, Any]:
    for name in ("claims-table", "claims-by-model", "claims-seeds"):
        app.add_directive(name, Mark)
    app.add_directive("claim-tests", ClaimTests)
    app.add_role("claims-summary", SummaryRole())
    app.connect("doctree-read", links.name_cells)
    app.connect("env-updated", gather)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", load_assets)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
