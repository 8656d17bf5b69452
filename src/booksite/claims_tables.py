"""The matrix of the claims page as nodes: a line a claim, a sign a model, and what is behind it."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping

from docutils import nodes
from sphinx.application import Sphinx

from booksite import links
from lnattn.models.choice import default_model
from lnattn_book.claims.ledger import own_first
from lnattn_book.claims.listed import SOURCES, Claim, claims
from lnattn_book.claims.tally import PAPERS
from lnattn_book.claims.verdicts import (
    SIGNS,
    VERDICTS,
    Record,
    counts_as,
    effect,
    robustness,
)
from lnattn_book.style import model_name

#: The columns that come first and last; between them stands each other model by its name.
PLACES = {"GPT-2": 0, "trained here": 2, "no model": 3}


def column(model: str) -> str:
    """The column of a model: its name, or one for all that the book trains, or for none."""
    first = model.partition(" ")[0].rstrip(",")
    if first in ("no", "random"):
        return "no model"
    if first in ("majority", "trained", "classifiers", "language"):
        return "trained here"
    return model_name(first)


def bar(source: str, counts: Mapping[str, int]) -> nodes.raw:
    """A stacked bar of the claims of a source, by verdict."""
    some = {verdict: number for verdict, number in counts.items() if number}
    said = ", ".join(f"{n} {verdict}" for verdict, n in some.items())
    parts = "".join(
        f'<span class="{_class(verdict)}" style="flex: {n}" title="{n} {verdict}">'
        f"{SIGNS[verdict]} {n}</span>"
        for verdict, n in some.items()
    )
    label = f'role="img" aria-label="{source}: {said}"'
    return _html(f'<div class="claims-bar"><p>{source}</p><div {label}>{parts}</div></div>')


def matrix(app: Sphinx, page: str, found: list[Record]) -> nodes.container:
    """All claims: those of the two papers in the open, those of each other source folded."""
    of: dict[str, list[Record]] = {}
    for entry in found:
        of.setdefault(entry.claim, []).append(entry)
    listed = list(claims().values())
    made: list[nodes.Node] = _rows(app, page, [one for one in listed if one.id[0] in PAPERS], of)
    for letter, name in SOURCES.items():
        some = [one for one in listed if one.id[0] == letter and letter not in PAPERS]
        if not some:
            continue
        first = [(one, entry) for one in some for entry in of.get(one.id, [])[:1]]
        counts = Counter(SIGNS[counts_as(one, entry.verdict)] for one, entry in first)
        marks = " ".join(f"{mark} {counts[mark]}" for mark in SIGNS.values() if counts[mark])
        title = f"{name[0].upper()}{name[1:]}: {len(some)} claims {marks}".rstrip()
        opening = f'<details class="claims-group"><summary>{html.escape(title)}</summary>'
        made += [_html(opening), *_rows(app, page, some, of), _html("</details>")]
    return nodes.container("", *made, classes=["claims-all"])


def _rows(
    app: Sphinx, page: str, some: list[Claim], of: Mapping[str, list[Record]]
) -> list[nodes.Node]:
    seen = {column(entry.model) for one in some for entry in of.get(one.id, [])}
    names = sorted(seen, key=lambda name: (PLACES.get(name, 1), name))
    heads = "".join(f"<span>{html.escape(name)}</span>" for name in ("", *names))
    top = f'<div class="claims-head" aria-hidden="true">{heads}</div>'
    made: list[nodes.Node] = [_html(f'<div style="--models: {len(names)}">{top}')]
    for claim in some:
        mine = own_first(claim, of.get(claim.id, []))
        signs = "".join(_signs(claim, name, mine) for name in names)
        opening = (
            f'<details class="claim from-{claim.id[0]}" id="claim-{claim.id.lower()}" '
            f'data-source="{html.escape(claim.source, quote=True)}"><summary>'
            f"<span><b>{claim.id}</b> {html.escape(claim.line)}</span>{signs}</summary>"
        )
        made += [_html(opening), *_behind(app, page, claim, mine), _html("</details>")]
    return [*made, _html("</div>")]


def _signs(claim: Claim, name: str, mine: list[Record]) -> str:
    """The signs of a claim in one column, each verdict once, those that count first."""
    asked = sorted((e for e in mine if column(e.model) == name), key=lambda one: not one.counted)
    signs = ""
    for verdict in dict.fromkeys(counts_as(claim, entry.verdict) for entry in asked):
        label = html.escape(f"{name}: {verdict}", quote=True)
        signs += f'<span class="sign {_class(verdict)}" role="img" aria-label="{label}" '
        signs += f'title="{label}">{SIGNS[verdict]}</span>'
    return f"<span>{signs}</span>"


def _behind(app: Sphinx, page: str, claim: Claim, mine: list[Record]) -> list[nodes.Node]:
    """What a click opens: the statement, what the source says, each record, and the rule."""
    where = nodes.emphasis("", f" ({claim.source}, {claim.section})")
    parts: list[nodes.Node] = [nodes.paragraph("", "", *inline(claim.statement), where)]
    rules = list(dict.fromkeys(entry.rule for entry in mine if entry.rule))
    tolerance = "a thousandth" if claim.tolerance is None else f"{claim.tolerance:g}"
    labelled = {
        "The source: ": claim.quote and f"“… {claim.quote} …”",
        "Reported: ": claim.reported,
        "Rule: ": rules[0] if len(rules) == 1 else "",
        "Kind and tolerance: ": f"{claim.kind}; a later build may differ by {tolerance}",
        "Thresholds tried: ": "; ".join(
            f"{name} {', '.join(f'{value:g}' for value in values)}"
            for name, values in claim.grid.items()
        ),
        "A second way: ": claim.second and "{by}, held by {test}".format(**claim.second),
    }
    for label, text in labelled.items():
        if text:
            parts.append(nodes.paragraph("", "", nodes.strong("", label), *inline(text)))
    parts += [] if mine else [nodes.paragraph("", "not yet registered")]
    alike: dict[tuple[str, str], list[Record]] = {}
    own = default_model().name
    for entry in sorted(mine, key=lambda one: (not claim.is_about(one.model), one.model != own)):
        alike.setdefault((entry.model, entry.verdict), []).append(entry)
    for (name, verdict), asked in alike.items():
        model = html.escape(name, quote=True)
        opening = f'<div class="found" data-model="{model}" data-verdict="{verdict}">'
        counted = counts_as(claim, verdict)
        shown = f"{SIGNS[counted]} {verdict} · {model_name(name)}"
        look = links.of_claim(app, page, claim, asked[0])
        for other in asked[1:]:
            look += [nodes.Text(" · also "), links.to_cell(app, page, other)]
        different = {(one.words, one.note, one.rule): one for one in asked}
        parts += [
            _html(opening),
            nodes.paragraph("", "", nodes.strong("", shown), classes=["verdict", _class(counted)]),
            *(_found(one, with_rule=len(rules) > 1) for one in different.values()),
            nodes.paragraph("", "", *look, classes=["look-at"]),
            _html("</div>"),
        ]
    return parts


def _found(one: Record, *, with_rule: bool) -> nodes.paragraph:
    """What was found, its effect, the note on it, and the rule where it is not said elsewhere."""
    parts = _leaves(one) if one.leaves else inline(one.words)
    if size := effect(one):
        parts += [nodes.Text(". "), nodes.strong("", "Effect: "), *inline(size)]
    parts += [nodes.Text("; "), *inline(one.note)] if one.note else []
    parts += [nodes.Text(f". Robustness: {robustness(one)}.")] if one.stands else []
    parts += [nodes.Text(" Rule: "), *inline(one.rule)] if with_rule and one.rule else []
    return nodes.paragraph("", "", *parts)


def _leaves(one: Record) -> list[nodes.Node]:
    """The parts of a compound claim, each with its sign, name, words and effect."""
    made: list[nodes.Node] = []
    for leaf in one.leaves:
        made += [nodes.Text("; ")] if made else []
        made += [nodes.strong("", f"{VERDICTS[leaf.verdict]} {leaf.name}: "), *inline(leaf.words)]
    return made


def inline(text: str) -> list[nodes.Node]:
    """Nodes for a text: what stands between two dollars is mathematics, the rest is itself."""
    made: list[nodes.Node] = []
    for number, part in enumerate(re.split(r"\$([^$]+)\$", " ".join(text.split()))):
        if part:
            made.append(nodes.math(part, part) if number % 2 else nodes.Text(part))
    return made


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def _class(verdict: str) -> str:
    return f"verdict-{verdict.replace(' ', '-')}"
