"""The tables of the claims page as nodes: the claims with their verdicts, and counts."""

from __future__ import annotations

import html
from collections.abc import Iterable

from docutils import nodes
from sphinx.application import Sphinx

from booksite import links
from booksite.text import inline
from lnattn.models.choice import default_model
from lnattn_book.claims.listed import Claim, claims
from lnattn_book.claims.tally import by_model, own_first
from lnattn_book.claims.verdicts import VERDICTS, Record
from lnattn_book.style import model_name


def row_id(claim: Claim) -> str:
    return f"claim-{claim.id.lower()}"


def claims_table(app: Sphinx, page: str, found: list[Record]) -> nodes.container:
    """All claims, one row each: what is said, the rule, and a chip for each model asked."""
    rows = []
    for claim in claims().values():
        mine = own_first(claim, (entry for entry in found if entry.claim == claim.id))
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
    app: Sphinx, page: str, claim: Claim, mine: list[Record], *, with_rules: bool
) -> nodes.entry:
    """A chip for each verdict on a model; unfolded, its number, its note and its links.

    The first is of the model that the claim is about, else of the one that this copy was built on.
    Chapters that ask the same of the same model share a chip.
    """
    if not mine:
        look = links.of_claim(app, page, claim, None)
        return _cell([nodes.Text("not yet registered · "), *look])
    parts: list[nodes.Node] = []
    built_on = default_model().name
    alike: dict[tuple[str, str], list[Record]] = {}
    for entry in sorted(mine, key=lambda one: (one.model != claim.model, one.model != built_on)):
        alike.setdefault((entry.model, entry.verdict), []).append(entry)
    for (name, verdict), asked in alike.items():
        model, shown = (html.escape(one, quote=True) for one in (name, model_name(name)))
        opening = (
            f'<details class="chip {_verdict_class(asked[0])}" data-model="{model}">'
            f"<summary>{VERDICTS[verdict]} {verdict} · {shown}</summary>"
        )
        look = links.of_claim(app, page, claim, asked[0])
        for other in asked[1:]:
            look += [nodes.Text(" · also "), links.to_cell(app, page, other)]
            if other.function != asked[0].function:
                look += [nodes.Text(" · "), links.to_function(app, page, other.function)]
        said = dict.fromkeys((one.words, one.note, one.rule if with_rules else "") for one in asked)
        parts += [
            nodes.raw("", opening, format="html"),
            *(_found(*words) for words in said),
            nodes.paragraph("", "", *look, classes=["look-at"]),
            nodes.raw("", "</details>", format="html"),
        ]
    return nodes.entry("", *parts)


def _found(reproduced: str, note: str, rule: str) -> nodes.paragraph:
    """What was found, the note on it, and the rule where it is not said elsewhere."""
    noted = [nodes.Text(" "), *inline(note)] if note else []
    ruled = [nodes.Text(" Rule: "), *inline(rule)] if rule else []
    return nodes.paragraph("", "", nodes.strong("", "", *inline(reproduced)), *noted, *ruled)


def _verdict_class(entry: Record) -> str:
    return f"verdict-{entry.verdict.replace(' ', '-')}"


def counts_table(found: list[Record]) -> nodes.table:
    """Claims by model and verdict."""
    rows = [
        nodes.row(
            "",
            *(
                _cell([nodes.Text(text)])
                for text in (model_name(model), *map(str, counts.values()))
            ),
        )
        for model, counts in by_model(found).items()
    ]
    head = ("Model", *(f"{mark} {verdict}" for verdict, mark in VERDICTS.items()))
    return table(head, (40, *(60 // len(VERDICTS) for _ in VERDICTS)), rows)


def table(head: Iterable[str], widths: Iterable[int], rows: list[nodes.row]) -> nodes.table:
    top = nodes.row("", *(_cell([nodes.Text(text)]) for text in head))
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(top))
    group += nodes.thead("", top)
    group += nodes.tbody("", *rows)
    return nodes.table("", group)


def _cell(content: list[nodes.Node]) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", *content))
