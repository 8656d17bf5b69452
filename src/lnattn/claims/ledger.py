"""The claims ledger: what the papers report beside what a chapter computed, with a verdict.

`book/claims.yml` lists every claim once. A chapter calls `register` where it has computed one;
`table` then shows 'claim | reported | reproduced here | holds?'. A record goes to two places: to a
small JSON file in the ledger folder, for whoever runs a chapter by hand, and, unseen, into the
output of the notebook's cell. A build reads the latter (`booksite.executed`), so that the
records are always those of the very run that its pages show.
"""

from __future__ import annotations

import itertools
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lnattn.claims import seeds
from lnattn.claims.listed import Claim, claim, claims
from lnattn.claims.verdicts import VERDICTS, Verdict
from lnattn.errors import ResultError
from lnattn.paths import ledger_folder
from lnattn.storage import package_versions, read_json, write_json

#: Marks a record among the data that MyST-NB keeps beside a notebook (see its `glue`).
RECORD_PREFIX = "claim:"
_HIDDEN = "application/papermill.record/"

#: The records of this process, by ledger folder and file name.
_registered: dict[Path, Entry] = {}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Entry:
    """What one chapter found out about one claim with one model.

    rule: the rule behind the verdict, in words; counted: whether the record speaks for its claim in
    the headline, where a claim was asked in several settings; execution: the number of the cell
    that registered it; chapter: the page that did, which a build fills in.
    """

    id: str
    model: str
    reproduced: str
    verdict: str
    function: str
    note: str
    cell: str
    values: Mapping[str, Any]
    rule: str = ""
    counted: bool = True
    chapter: str = ""
    execution: int = 0


def register(
    found: Verdict,
    *,
    function: str | Callable[..., Any] | None = None,
    cell: str = "",
    note: str = "",
    counted: bool = True,
    folder: Path | str | None = None,
) -> None:
    """Record a verdict, replacing an earlier record of the same claim and model.

    found: what a rule in `lnattn.claims` returned; function: what computed the results, an
    importable function or its dotted name (default: the one that claims.yml names); cell: the label
    of the cell or figure; note: what to add to the verdict's own and to what shorter trainings of
    the model say of it (`lnattn.claims.seeds`); counted: see `Entry`. Raises
    `ResultError` for an empty text or model, or a function that cannot be imported.
    """
    if not found.words.strip() or not found.model.strip():
        raise ResultError(
            f"claim {found.claim} needs a reproduced value and a model, not empty text."
        )
    name = dotted_name(function) if callable(function) else function
    name = name or claim(found.claim).function
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ResultError(f"claim {found.claim}: {name!r} cannot be imported ({error}).") from error
    entry = Entry(
        id=found.claim,
        model=found.model,
        reproduced=found.words,
        verdict=found.verdict,
        function=name,
        note="; ".join(filter(None, (found.note, note, seeds.beside(found)))),
        cell=cell,
        values=dict(found.values),
        rule=found.rule,
        counted=counted,
        execution=_execution_count(),
    )
    path = write_entry(entry, Path(folder) if folder else ledger_folder())
    _registered[path] = entry
    _publish(entry)


def write_entry(entry: Entry, folder: Path) -> Path:
    """Write one record to the ledger folder; returns its file."""
    versions = package_versions("lnattn", "torch", "transformers")
    return write_json(folder / file_name(entry), {**vars(entry), "versions": versions})


def _execution_count() -> int:
    """The number of the notebook cell that runs now; 0 outside a notebook."""
    shell = _shell()
    # Not its execution_count, which IPython raises before it runs a cell or after, by version.
    return len(shell.user_ns["In"]) - 1 if shell else 0


def _publish(entry: Entry) -> None:
    """Put the record into the running cell's output, where readers do not see it."""
    if _shell() is None:
        return
    from IPython.display import display

    # A number, because the same claim may be registered again, which replaces the record.
    name = f"{RECORD_PREFIX}{entry.id}:{entry.model}:{next(_numbers)}"
    data = {_HIDDEN + "text/plain": json.dumps(vars(entry), ensure_ascii=False)}
    marked = {"scrapbook": {"name": name, "mime_prefix": _HIDDEN}}
    display(data, metadata=marked, raw=True)


def _shell() -> Any:
    """The running IPython shell, or None."""
    try:
        from IPython import get_ipython
    except ImportError:  # the package without the book's extra
        return None
    return get_ipython()


def entries(folder: Path | str | None = None) -> list[Entry]:
    """All records of the ledger, in the order of the claims, then by model."""
    place = Path(folder) if folder else ledger_folder()
    return in_order(_entry(path) for path in sorted(place.glob("*.json")))


def in_order(found: Iterable[Entry]) -> list[Entry]:
    """Records in the order of the claims, then by model, then by chapter."""
    order = {claim_id: number for number, claim_id in enumerate(claims())}
    return sorted(found, key=lambda entry: (order[entry.id], entry.model, entry.chapter))


def report(chosen: Iterable[Claim], found: Sequence[Entry]) -> list[dict[str, Any]]:
    """Claims with what was found about each, as plain data: what `lnattn claims --json` prints."""
    return [
        {**asdict(one), "found": [asdict(entry) for entry in found if entry.id == one.id]}
        for one in chosen
    ]


def table(ids: Sequence[str] | str, folder: Path | str | None = None) -> Table:
    """The table 'claim | reported | reproduced here | holds?' for these claims, by model.

    It shows what this process has registered, or all records in `folder`. A claim that has none
    appears as such: it is never left out in silence.
    """
    wanted = [ids] if isinstance(ids, str) else list(ids)
    found = entries(folder) if folder else _of_this_process()
    rows: list[tuple[Claim, Entry | None]] = []
    for claim_id in wanted:
        about = claim(claim_id)
        matching: list[Entry | None] = [entry for entry in found if entry.id == claim_id]
        rows.extend((about, entry) for entry in matching or [None])
    return Table(tuple(rows))


def _of_this_process() -> list[Entry]:
    place = ledger_folder()
    return in_order(entry for path, entry in _registered.items() if path.parent == place)


@dataclass(frozen=True)
class Table:
    """Claims with their records; a notebook shows it as Markdown."""

    rows: tuple[tuple[Claim, Entry | None], ...]

    def __repr__(self) -> str:
        return "\n".join(
            f"{about.id}: reported {about.reported} | "
            + ("not registered" if entry is None else f"{entry.reproduced} | {entry.verdict}")
            for about, entry in self.rows
        )

    def _repr_markdown_(self) -> str:
        # The wrapper lets the site's style sheet stack the cells on a phone.
        lines = [
            '<div class="claims">\n',
            "| Claim | Reported | Reproduced here | Holds? |",
            "|:--|:--|:--|:--|",
        ]
        for about, entry in self.rows:
            stated = f"**{about.id}** ({about.section}) {about.statement}"
            if entry is None:
                found, verdict = "not computed in this build", "not registered"
            else:
                found = f"{entry.reproduced}<br>*{entry.model}*"
                verdict = f"{VERDICTS[entry.verdict]} {entry.verdict}"
                if entry.note:
                    verdict += f": {entry.note}"
            cells = (stated, about.reported, found, verdict)
            lines.append("| " + " | ".join(map(_markdown_cell, cells)) + " |")
        rules = {entry.id: entry.rule for _, entry in self.rows if entry is not None and entry.rule}
        listed = [f"- **{claim_id}** {words}" for claim_id, words in rules.items()]
        after = ["", "The verdicts follow these rules:", "", *listed] if listed else []
        return "\n".join([*lines, "\n</div>", *after])


def dotted_name(function: Callable[..., Any]) -> str:
    """'module.qualified_name' of a function or class."""
    return f"{function.__module__}.{function.__qualname__}"


def file_name(entry: Entry) -> str:
    """The record's file: by claim, model and, where it is known, the page that registered it."""
    parts = [entry.id, _slug(entry.model) or "model", _slug(entry.chapter)]
    return "--".join(part for part in parts if part) + ".json"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.").lower()


def _entry(path: Path) -> Entry:
    record = read_json(path)
    record.pop("versions", None)
    return as_entry(record, str(path))


def as_entry(record: Mapping[str, Any], origin: str) -> Entry:
    """A record as an `Entry`; one that is none, or names an unknown claim, is a `ResultError`."""
    try:
        entry = Entry(**record)
    except TypeError as error:
        raise ResultError(f"{origin} is not a ledger record ({error}); delete it.") from error
    if entry.verdict not in VERDICTS or entry.id not in claims():
        raise ResultError(
            f"{origin} has an unknown claim or verdict ({json.dumps([entry.id, entry.verdict])}); "
            "delete it and rebuild."
        )
    return entry


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
