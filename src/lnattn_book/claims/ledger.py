"""The claims ledger: what a chapter found about a claim, on its way to the claims page.

A chapter calls `register` where it has judged a claim of `book/claims.yml`; the record goes,
unseen, into the output of the notebook's cell, from where a build reads it (`booksite.executed`):
so records are those of the very run that the pages show, also where it came from the cache. `table`
shows what this process has registered.
"""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from IPython import get_ipython
from IPython.display import Markdown, display

from lnattn.errors import ResultError
from lnattn_book.claims.listed import Claim, claim, claims
from lnattn_book.claims.verdicts import VERDICTS, Leaf, Record
from lnattn_book.page.names import model_name

#: Marks a record among the data that MyST-NB keeps beside a notebook (see its `glue`).
RECORD_PREFIX = "claim:"
_HIDDEN = "application/papermill.record/"
_numbers = itertools.count(1)
#: The records of this process, by claim and model.
_registered: dict[tuple[str, str], Record] = {}


def register(
    measured: Record,
    *,
    function: Callable[..., Any] | None = None,
    cell: str = "",
    note: str = "",
    counted: bool = True,
) -> Record:
    """Enter a record, also into the output of the running cell, and return it.

    function: what computed the results (default: what claims.yml names); cell: label of the cell or
    figure; note: what to add to the rule's own; counted: whether it speaks for its claim in the
    headline. Raises `ResultError` for a record without words or model.
    """
    if not measured.words.strip() or not measured.model.strip():
        raise ResultError(f"claim {measured.claim} needs words and a model, not empty text.")
    name = claim(measured.claim).function
    shell = get_ipython()
    record = replace(
        measured,
        function=f"{function.__module__}.{function.__qualname__}" if function else name,
        cell=cell,
        note="; ".join(filter(None, (measured.note, note))),
        counted=counted,
        # Not its execution_count, which IPython raises before it runs a cell or after, by version.
        execution=len(shell.user_ns["In"]) - 1 if shell else 0,
    )
    _registered[record.claim, record.model] = record
    if shell:
        # A number, because the same claim may be registered again, which replaces the record.
        name = f"{RECORD_PREFIX}{record.claim}:{record.model}:{next(_numbers)}"
        data = {_HIDDEN + "text/plain": json.dumps(asdict(record), ensure_ascii=False)}
        display(data, metadata={"scrapbook": {"name": name, "mime_prefix": _HIDDEN}}, raw=True)
    return record


def as_record(data: Mapping[str, Any], origin: str) -> Record:
    """Data as a `Record`; what is none, or names an unknown claim, is a `ResultError`."""
    try:  # JSON has lists for tuples, and maps for leaves
        pairs = {
            key: tuple(data[key]) for key in ("interval", "stands", "null_draws") if data.get(key)
        }
        leaves = tuple(Leaf(**leaf) for leaf in data.get("leaves", ()))
        record = Record(**{**data, **pairs, "leaves": leaves})
    except (TypeError, KeyError, AttributeError) as error:
        raise ResultError(f"{origin} is not a ledger record ({error}); rebuild.") from error
    if record.verdict not in VERDICTS or record.claim not in claims():
        what = json.dumps([record.claim, record.verdict])
        raise ResultError(f"{origin} has an unknown claim or verdict ({what}); rebuild.")
    return record


def in_order(records: Iterable[Record]) -> list[Record]:
    """Records in the order of the claims, then by model, then by chapter."""
    order = {claim_id: number for number, claim_id in enumerate(claims())}
    return sorted(records, key=lambda record: (order[record.claim], record.model, record.chapter))


def own_first(about: Claim, records: Iterable[Record]) -> list[Record]:
    """The records of one claim, those of its own chapter before those of others."""
    mine = (record for record in records if record.claim == about.id)
    return sorted(mine, key=lambda record: record.chapter.split("/")[-1] != about.chapter)


def table(ids: Sequence[str]) -> Markdown:
    """The table 'claim | asked of | holds?' of what this process registered.

    What was reported and what was found stands on the claims page, to which each id leads. A claim
    that has no record appears as such: it is never left out in silence.
    """
    lines = ["| Claim | Asked of | Holds? |", "|:--|:--|:--|"]
    for about in map(claim, ids):
        mine = in_order(record for record in _registered.values() if record.claim == about.id)
        verdicts = [
            (html.escape(model_name(record.model)), f"{record.mark} {record.verdict}")
            for record in mine
        ]
        said = f"{{claim}}`{about.id}` {about.line}"
        for model, verdict in verdicts or [("", "not computed in this build")]:
            cells = (" ".join(cell.split()).replace("|", "\\|") for cell in (said, model, verdict))
            lines.append(f"| {' | '.join(cells)} |")
            said = ""  # once, before the first of its models
    return Markdown("\n".join(lines))
