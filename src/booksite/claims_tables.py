"""The matrix of the claims page as nodes: a line a claim, a sign a model, and what is behind it."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from booksite import links
from lnattn.errors import capitalised
from lnattn.models.choice import default_model
from lnattn_book.claims.ledger import own_first
from lnattn_book.claims.listed import SOURCES, Claim, claims
from lnattn_book.claims.tally import PAPERS
from lnattn_book.claims.verdicts import ABSENT, SIGNS, Record, counts_as, effect, robustness
from lnattn_book.page.names import model_name

#: The columns between which stand the models in GPT-2's place, one each.
FIRST = ("GPT-2",)
LAST = ("trained here", "none")


def column(model: str) -> str:
    """The column of a model: its own, that of all that the book trains, or that of no model."""
    first = model_name(model).partition(" ")[0].rstrip(",")
    if first in ("no", "random"):
        return "none"
    if first in ("majority", "trained", "classifiers", "language"):
        return "trained here"
    if first == "heads":  # made by hand, for one claim
        return "none"
    return first


def columns_of(listed: Iterable[Claim], records: Sequence[Record]) -> tuple[str, ...]:
    """The columns of these claims: the models that one of them was asked of, most asked first."""
    named: Counter[str] = Counter()
    for claim in listed:
        models = [record.model for record in records if record.claim == claim.id]
        absent = [claim.model] if claim.is_absent(models) else []
        named.update(dict.fromkeys(column(model) for model in [*models, *absent]).keys())
    between = [name for name, _ in named.most_common() if name not in FIRST + LAST]
    return tuple(name for name in (*FIRST, *between, *LAST) if name in named)


def _plain(model: str) -> str:
    """A model's name without how its numbers came here, such as ' (frozen)'."""
    return model.partition(" (")[0]


def _head(columns: tuple[str, ...]) -> str:
    names = "".join(f"<span>{html.escape(name)}</span>" for name in columns)
    return f'<div class="claims-head" aria-hidden="true"><span class="said"></span>{names}</div>'


def _number(claims_found: int) -> str:
    return "1 claim" if claims_found == 1 else f"{claims_found} claims"


def bar(source: str, counts: Mapping[str, int]) -> nodes.raw:
    """A stacked bar of the claims of a source, by verdict."""
    nonzero = {verdict: number for verdict, number in counts.items() if number}
    said = ", ".join(f"{n} {verdict}" for verdict, n in nonzero.items())
    parts = "".join(
        f'<span class="{_class(verdict)}" style="flex: {n}" title="{n} {verdict}">'
        f"{SIGNS[verdict]} {n}</span>"
        for verdict, n in nonzero.items()
    )
    label = f'role="img" aria-label="{source}: {said}"'
    return _html(f'<div class="claims-bar"><p>{source}</p><div {label}>{parts}</div></div>')


def matrix(app: Sphinx, page: str, records: list[Record]) -> nodes.container:
    """Claims with a row: those of the two papers in the open, those of each other source folded.

    Each source has columns of its own, for the models that its claims were asked of.
    """
    of: dict[str, list[Record]] = {}
    for entry in records:
        of.setdefault(entry.claim, []).append(entry)
    made: list[nodes.Node] = []
    for letter in (*PAPERS, *(letter for letter in SOURCES if letter not in PAPERS)):
        listed = [claim for claim in claims().values() if claim.id[0] == letter and not claim.aside]
        if not listed:
            continue
        columns = columns_of(listed, records)
        rows = [_html(f'<div class="claims-matrix" style="--columns: {len(columns)}">')]
        rows.append(_html(_head(columns)))
        for claim in listed:
            mine = own_first(claim, of.get(claim.id, []))
            behind = _behind(app, page, claim, mine, default_model().name)
            rows += [_html(_opening(claim, mine, columns)), *behind, _html("</details>")]
        rows.append(_html("</div>"))
        made += rows if letter in PAPERS else _folded(SOURCES[letter], listed, of, rows)
    return nodes.container("", *made, classes=["claims-all"])


def _folded(
    source: str, listed: list[Claim], of: Mapping[str, list[Record]], rows: list[nodes.Node]
) -> list[nodes.Node]:
    """The rows of a source under a line with its claims by sign, one model for each claim."""
    first = [(claim, entry) for claim in listed for entry in of.get(claim.id, [])[:1]]
    counts = Counter(SIGNS[counts_as(claim, entry.verdict)] for claim, entry in first)
    marks = " ".join(f"{mark} {counts[mark]}" for mark in SIGNS.values() if counts[mark])
    title = html.escape(f"{capitalised(source)}: {_number(len(listed))} {marks}".rstrip())
    opening = f'<details class="claims-group"><summary>{title}</summary>'
    return [_html(opening), *rows, _html("</details>")]


def paragraphs(app: Sphinx, page: str, entries: Iterable[Record]) -> nodes.container:
    """The claims without a row: of each its line, what was found, and why it stays open."""
    records = list(entries)
    made = []
    for about in (claim for claim in claims().values() if claim.aside):
        mine = own_first(about, records)
        sentences = [about.line if about.line.endswith("?") else f"{about.line}."]
        by_model = {record.model: record for record in reversed(mine)}
        for model, record in reversed(by_model.items()):
            words = f"{model_name(model)}, {record.verdict}: {record.words}."
            sentences.append(capitalised(words))
        text = " ".join([*sentences, about.aside])
        said: list[nodes.Node] = [nodes.strong("", f"{about.id}. "), *inline(text)]
        if mine:
            said += [nodes.Text(" ("), links.to_cell(app, page, mine[0]), nodes.Text(".)")]
        made.append(nodes.paragraph("", "", *said, ids=[f"claim-{about.id.lower()}"]))
    return nodes.container("", *made, classes=["claims-aside"])


def changed_rules(entries: Iterable[Record]) -> nodes.raw:
    """Folded, a line for each claim whose rule was changed: when, why, and what became of it."""
    records = list(entries)
    changed = [about for about in claims().values() if about.changed]
    lines = ""
    for about in changed:
        verdicts = "; ".join(
            dict.fromkeys(
                f"{model_name(record.model)}\xa0{SIGNS[record.before]}\xa0→\xa0{SIGNS[record.verdict]}"
                for record in records
                if record.claim == about.id and record.before
            )
        )
        cells = (about.id, about.changed["date"], about.changed["why"], verdicts)
        lines += "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
    heads = ("Claim", "Changed", "Why", "Before → now")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return _html(
        f'<details class="changed-rules"><summary>{len(changed)} of {len(claims())} claims: when, '
        "why, and the verdicts by both rules</summary>"
        '<div class="pst-scrollable-table-container"><table class="table">'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div></details>"
    )


def null_in_words(mine: Iterable[Record]) -> str:
    """What learnt nothing, and what it gets by the same rule, by model."""
    asked = [record for record in mine if record.null_model]
    words = dict.fromkeys(record.null_model for record in asked)
    verdicts = dict.fromkeys(
        f"{model_name(record.model)}: {_of_null(record)}" for record in asked if record.null_verdict
    )
    gets = f". It gets, by the same rule: {'; '.join(verdicts)}" if verdicts else ""
    return "; ".join(words) + gets


def _of_null(record: Record) -> str:
    draws = record.null_draws
    said = "" if draws is None else f" ({draws[0]} of {draws[1]})"
    return record.null_verdict + said


def _opening(claim: Claim, mine: list[Record], columns: tuple[str, ...]) -> str:
    """The begin of a claim: its line, a line for each of its parts, and their signs."""
    whole = [(e, counts_as(claim, e.verdict), robustness(e).endswith("fragile")) for e in mine]
    if claim.is_absent(record.model for record in mine):
        whole.append((Record(ABSENT, "", model=claim.model), ABSENT, False))
    lines = _line(f"<b>{claim.id}</b> {html.escape(claim.line)}", whole, columns)
    parts = [
        (leaf.name, (record, leaf.verdict, False)) for record in mine for leaf in record.leaves
    ]
    for name in dict.fromkeys(name for name, _ in parts):
        said = f'<span class="part">{html.escape(name)}</span>'
        lines += _line(said, [entry for part, entry in parts if part == name], columns)
    return (
        f'<details class="claim from-{claim.id[0]}" id="claim-{claim.id.lower()}" '
        f'data-source="{html.escape(SOURCES[claim.id[0]])}"><summary>{lines}</summary>'
    )


def _line(said: str, entries: Iterable[tuple[Record, str, bool]], columns: tuple[str, ...]) -> str:
    """A line of the matrix: what is claimed, and in each column each sign once.

    entries: records, what they count as, and whether that is fragile; those that count come first.
    """
    shown = sorted(entries, key=lambda entry: not entry[0].counted)
    cells = f'<span class="said">{said}</span>'
    for name in columns:
        asked = [(what, weak) for record, what, weak in shown if column(record.model) == name]
        signs = ""
        for what, weak in dict.fromkeys(asked):
            label = html.escape(f"{name}: {what}{', fragile' if weak else ''}")
            kinds = f"sign {_class(what)}{' fragile' if weak else ''}"
            signs += f'<span class="{kinds}" role="img" aria-label="{label}" title="{label}">'
            signs += f"{SIGNS[what]}</span>"
        cells += f"<span>{signs}</span>"
    return cells


def _behind(
    app: Sphinx, page: str, claim: Claim, mine: list[Record], own_model: str
) -> list[nodes.Node]:
    """What a click opens: statement, source, rule, and each record, those of `own_model` first."""
    where = nodes.emphasis("", f" ({SOURCES[claim.id[0]]}, {claim.section})")
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
        "Null model: ": null_in_words(mine),
    }
    for label, text in labelled.items():
        if text:
            parts.append(nodes.paragraph("", "", nodes.strong("", label), *inline(text)))
    if claim.is_absent(entry.model for entry in mine):
        parts.append(nodes.paragraph("", f"{ABSENT}: LNATTN_MODEL={claim.model} make book"))
    alike: dict[tuple[str, str], list[Record]] = {}
    for entry in sorted(
        mine, key=lambda record: (not claim.is_about(record.model), record.model != own_model)
    ):
        alike.setdefault((entry.model, entry.verdict), []).append(entry)
    for (name, verdict), asked in alike.items():
        counted = counts_as(claim, verdict)
        shown = nodes.strong("", f"{SIGNS[counted]} {verdict} · {model_name(name)}")
        look = links.of_claim(app, page, claim, asked[0])
        for other in asked[1:]:
            look += [nodes.Text(" · also "), links.to_cell(app, page, other)]
        model = html.escape(_plain(name))
        different = {(record.words, record.note, record.rule): record for record in asked}
        parts += [
            _html(f'<div class="found" data-model="{model}" data-verdict="{verdict}">'),
            nodes.paragraph("", "", shown, classes=["verdict", _class(counted)]),
            *(_found(record, with_rule=len(rules) > 1) for record in different.values()),
            nodes.paragraph("", "", *look, classes=["look-at"]),
            _html("</div>"),
        ]
    return parts


def _found(record: Record, *, with_rule: bool) -> nodes.paragraph:
    """What was found, its effect, the note on it, and the rule where it is not said elsewhere."""
    said: list[nodes.Node] = []
    for leaf in record.leaves:
        said += [nodes.Text("; ")] if said else []
        said += [nodes.strong("", f"{SIGNS[leaf.verdict]} {leaf.name}: "), *inline(leaf.words)]
    said = said or inline(record.words)
    if size := effect(record):
        said += [nodes.Text(". "), nodes.strong("", "Effect: "), *inline(size)]
    said += [nodes.Text("; "), *inline(record.note)] if record.note else []
    said += [nodes.Text(f". Robustness: {robustness(record)}.")] if record.stands else []
    said += [nodes.Text(" Rule: "), *inline(record.rule)] if with_rule and record.rule else []
    return nodes.paragraph("", "", *said)


def machines(
    sent: Iterable[Mapping[str, Any]], frozen: Mapping[str, str], digest: str
) -> nodes.raw:
    """A table of what builds elsewhere gave: of each, how many of the frozen verdicts it has."""
    heads = ("Made", "Processor and system", "Versions", "Commit", "Verdicts as frozen", "Hash")
    lines = "".join(f"<th>{name}</th>" for name in heads)
    for build in sent:
        same = sum(build["verdicts"].get(name) == verdict for name, verdict in frozen.items())
        cells = (
            build["date"],
            f"{build['processor']}; {build['platform']}",
            ", ".join(f"{name} {number}" for name, number in build["versions"].items()),
            build["commit"][:8],
            f"{same} of {len(frozen)}",
            f"{build['sha256'][:8]}, {'the same' if build['sha256'] == digest else 'another'}",
        )
        lines += "</tr><tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return _html(
        f'<div class="pst-scrollable-table-container"><table><tr>{lines}</tr></table></div>'
    )


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
