"""The claims ledger: what the sources report beside what a chapter computed, with a verdict.

A chapter calls `register` where it has judged a claim of `book/claims.yml`; the record goes,
unseen, into the output of the notebook's cell, from where a build reads it (`booksite.executed`):
so records are those of the very run that the pages show, also where it came from the cache. `table`
shows what this process has registered.
"""

from __future__ import annotations

import html
import itertools
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lnattn.errors import ResultError
from lnattn_book.claims.listed import Claim, claim, claims
from lnattn_book.claims.verdicts import Record
from lnattn_book.claims.words import VERDICTS

#: Marks a record among the data that MyST-NB keeps beside a notebook (see its `glue`).
RECORD_PREFIX = "claim:"
_HIDDEN = "application/papermill.record/"

#: The records of this process, by claim and model.
_registered: dict[tuple[str, str], Record] = {}
_numbers = itertools.count(1)


def register(
    found: Record,
    *,
    function: str | Callable[..., Any] | None = None,
    cell: str = "",
    note: str = "",
    counted: bool = True,
) -> Record:
    """Enter a record, in place of an earlier one of the same claim and model, and return it.

    function: what computed the results, an importable function or its dotted name (default: the one
    that claims.yml names); cell: label of the cell or figure; note: what to add to the rule's own;
    counted: whether it speaks for its claim in the headline. Raises `ResultError` for empty words
    or model, or a function that cannot be imported.
    """
    if not found.words.strip() or not found.model.strip():
        raise ResultError(f"claim {found.claim} needs words and a model, not empty text.")
    name = f"{function.__module__}.{function.__qualname__}" if callable(function) else function
    name = name or claim(found.claim).function
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ResultError(f"claim {found.claim}: {name!r} cannot be imported ({error}).") from error
    notes = "; ".join(filter(None, (found.note, note)))
    shell = _shell()
    # Not its execution_count, which IPython raises before it runs a cell or after, by version.
    execution = len(shell.user_ns["In"]) - 1 if shell else 0
    record = replace(
        found, function=name, cell=cell, note=notes, counted=counted, execution=execution
    )
    _registered[record.claim, record.model] = record
    if shell:
        _publish(record)
    return record


def _publish(record: Record) -> None:
    """Put the record into the running cell's output, where readers do not see it."""
    from IPython.display import display

    # A number, because the same claim may be registered again, which replaces the record.
    name = f"{RECORD_PREFIX}{record.claim}:{record.model}:{next(_numbers)}"
    data = {_HIDDEN + "text/plain": json.dumps(vars(record), ensure_ascii=False)}
    display(data, metadata={"scrapbook": {"name": name, "mime_prefix": _HIDDEN}}, raw=True)


def _shell() -> Any:
    """The running IPython shell, or None."""
    try:
        from IPython import get_ipython
    except ImportError:  # the package without the book's extra
        return None
    return get_ipython()


def as_record(data: Mapping[str, Any], origin: str) -> Record:
    """Data as a `Record`; what is none, or names an unknown claim, is a `ResultError`."""
    try:
        interval = data.get("interval")  # JSON has no tuples
        record = Record(**{**data, "interval": tuple(interval) if interval else None})
    except (TypeError, AttributeError) as error:
        raise ResultError(f"{origin} is not a ledger record ({error}); rebuild.") from error
    if record.verdict not in VERDICTS or record.claim not in claims():
        what = json.dumps([record.claim, record.verdict])
        raise ResultError(f"{origin} has an unknown claim or verdict ({what}); rebuild.")
    return record


def in_order(found: Iterable[Record]) -> list[Record]:
    """Records in the order of the claims, then by model, then by chapter."""
    order = {claim_id: number for number, claim_id in enumerate(claims())}
    return sorted(found, key=lambda one: (order[one.claim], one.model, one.chapter))


def report(chosen: Iterable[Claim], found: Sequence[Record]) -> list[dict[str, Any]]:
    """Claims with what was found about each, as plain data."""
    return [
        {**asdict(about), "found": [asdict(one) for one in found if one.claim == about.id]}
        for about in chosen
    ]


def table(ids: Sequence[str] | str) -> Table:
    """The table 'claim | reported | reproduced here | holds?' of what this process registered.

    A claim that has no record appears as such: it is never left out in silence.
    """
    rows: list[tuple[Claim, Record | None]] = []
    for claim_id in [ids] if isinstance(ids, str) else ids:
        mine: list[Record | None] = [
            *in_order(one for one in _registered.values() if one.claim == claim_id)
        ]
        rows += [(claim(claim_id), one) for one in mine or [None]]
    return Table(tuple(rows))


@dataclass(frozen=True)
class Table:
    """Claims with their records; a notebook shows it as Markdown."""

    rows: tuple[tuple[Claim, Record | None], ...]

    def __repr__(self) -> str:
        return "\n".join(
            f"{about.id}: reported {about.reported} | "
            + ("not registered" if one is None else f"{one.words} | {one.verdict}")
            for about, one in self.rows
        )

    def _repr_markdown_(self) -> str:
        # The wrapper lets the site's style sheet stack the cells on a phone.
        lines = [
            '<div class="claims">\n',
            "| Claim | Reported | Reproduced here | Holds? |",
            "|:--|:--|:--|:--|",
        ]
        for about, one in self.rows:
            stated = f"**{about.id}** ({about.section}) {about.statement}"
            found, verdict = "not computed in this build", "not registered"
            if one is not None:
                found = f"{_live(one.words)}<br>*{_literal(one.model)}*"
                verdict = f"{one.mark} {one.verdict}" + (f": {_live(one.note)}" if one.note else "")
            cells = (stated, about.reported, found, verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        rules = {one.claim: one.rule for _, one in self.rows if one is not None and one.rule}
        listed = [f"- **{claim_id}** {words}" for claim_id, words in rules.items()]
        after = ["", "The verdicts follow these rules:", "", *listed] if listed else []
        return "\n".join([*lines, "\n</div>", *after])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _literal(name: str) -> str:
    """A name, of a model or a folder, as text: neither HTML nor Markdown."""
    return re.sub(r"([\\`*_\[\]$~^#!|])", r"\\\1", html.escape(name)).replace("\\|", "|")


def _live(text: str) -> str:
    """Words of a rule, which may hold mathematics and comparisons but no HTML."""
    return html.escape(text, quote=False)
