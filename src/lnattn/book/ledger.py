"""The claims ledger: what the papers report beside what a chapter computed, with a verdict.

`book/claims.yml` lists every claim once. A chapter calls `register` where it has computed one;
the record is a small JSON file, one for each claim and model, in the build's ledger folder.
`table` then shows 'claim | reported | reproduced here | holds?'.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from lnattn.book.page import plain_scalar
from lnattn.book.paths import ledger_folder, repository
from lnattn.errors import ResultError
from lnattn.storage import package_versions, read_json, write_json

HOLDS = "holds"
HOLDS_IN_PART = "holds in part"
FAILS = "fails"
NOT_COMPUTABLE = "not computable with this model"

#: The four verdicts and the mark that stands before each in a table.
VERDICTS: Mapping[str, str] = {
    HOLDS: "✓",
    HOLDS_IN_PART: "◐",
    FAILS: "✗",
    NOT_COMPUTABLE: "–",
}

_ID = re.compile(r"[KBRM][1-9][0-9]*")


@dataclass(frozen=True)
class Claim:
    """One claim, as `book/claims.yml` states it.

    paper: BibTeX key; section: where the paper says it; reported: the paper's value or picture;
    predicate: what a run must show for 'holds'; tolerance: the largest difference from a frozen
    number that still counts as the same, or None; function: dotted name of what computes it;
    model: what the claim is about; chapter: the notebook that computes it.
    """

    id: str
    paper: str
    section: str
    statement: str
    reported: str
    predicate: str
    tolerance: float | None
    function: str
    model: str
    chapter: str


@dataclass(frozen=True)
class Entry:
    """What one run found out about one claim with one model."""

    id: str
    model: str
    reproduced: str
    verdict: str
    function: str
    note: str
    cell: str
    values: Mapping[str, Any]


def claims(path: Path | str | None = None) -> dict[str, Claim]:
    """All claims by id, in the file's order; a malformed file is one `ResultError`."""
    source = Path(path) if path else repository() / "book" / "claims.yml"
    return _claims(source, source.stat().st_mtime_ns if source.is_file() else 0)


@lru_cache(maxsize=4)
def _claims(source: Path, _changed: int) -> dict[str, Claim]:
    try:
        listed = yaml.safe_load(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultError(f"{source} does not exist; it lists the claims.") from error
    except yaml.YAMLError as error:
        raise ResultError(f"{source} is not valid YAML ({error}).") from error
    if not isinstance(listed, list):
        raise ResultError(f"{source} must hold a list of claims, not {type(listed).__name__}.")
    found: dict[str, Claim] = {}
    for number, item in enumerate(listed, start=1):
        claim = _claim(source, number, item)
        if claim.id in found:
            raise ResultError(f"{source} lists claim {claim.id} twice; ids are unique.")
        found[claim.id] = claim
    return found


def _claim(source: Path, number: int, item: Any) -> Claim:
    expected = {field.name for field in fields(Claim)}
    if not isinstance(item, dict) or set(item) != expected:
        got = set(item) if isinstance(item, dict) else set()
        raise ResultError(
            f"{source}: claim number {number} must have exactly the keys {sorted(expected)}; "
            f"missing {sorted(expected - got)}, unknown {sorted(got - expected)}."
        )
    for key, value in item.items():
        if key == "tolerance":
            if value is not None and not (
                isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            ):
                raise ResultError(f"{source}: claim {item['id']}: tolerance must be null or ≥ 0.")
        elif not isinstance(value, str) or not value.strip():
            raise ResultError(f"{source}: claim number {number}: {key} must be text, not empty.")
    if not _ID.fullmatch(item["id"]):
        raise ResultError(f"{source}: {item['id']!r} is not an id; use K, B, R or M and a number.")
    return Claim(**item)


def claim(claim_id: str) -> Claim:
    """The claim with this id; an unknown id is one `ResultError`."""
    known = claims()
    if claim_id not in known:
        raise ResultError(f"claim {claim_id!r} is not in book/claims.yml, which has {_ids(known)}.")
    return known[claim_id]


def register(
    claim_id: str,
    *,
    reproduced: Any,
    verdict: str,
    model: str,
    function: str | Callable[..., Any] | None = None,
    note: str = "",
    cell: str = "",
    values: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
) -> None:
    """Record what this run found about a claim, replacing an earlier record for the same model.

    reproduced: what the table shows (a number or a short text); verdict: one of `VERDICTS`;
    model: the name of the model that was used; function: what computed it, an importable function
    or its dotted name (default: the one that claims.yml names); cell: the label of the cell or
    figure; values: the numbers behind the text, to compare runs with. Raises `ResultError` for an
    unknown id or verdict, an empty value, or a function that cannot be imported.
    """
    known = claim(claim_id)
    if verdict not in VERDICTS:
        raise ResultError(
            f"verdict {verdict!r} for claim {claim_id} is not one of: {', '.join(VERDICTS)}."
        )
    shown = str(plain_scalar(reproduced, f"the reproduced value of {claim_id}"))
    if not shown.strip() or not str(model).strip():
        raise ResultError(f"claim {claim_id} needs a reproduced value and a model, not empty text.")
    name = dotted_name(function) if callable(function) else (function or known.function)
    resolve(name)
    entry = Entry(
        id=claim_id,
        model=str(model),
        reproduced=shown,
        verdict=verdict,
        function=name,
        note=note,
        cell=cell,
        values={key: plain_scalar(value, key) for key, value in (values or {}).items()},
    )
    record = {**vars(entry), "versions": package_versions("lnattn", "torch", "transformers")}
    write_json(_path(entry.id, entry.model, folder), record)


def entries(folder: Path | str | None = None) -> list[Entry]:
    """All records of the ledger, in the order of the claims, then by model."""
    place = Path(folder) if folder else ledger_folder()
    found = [_entry(path) for path in sorted(place.glob("*.json"))]
    order = {claim_id: number for number, claim_id in enumerate(claims())}
    return sorted(found, key=lambda entry: (order[entry.id], entry.model))


def table(ids: Sequence[str] | str, folder: Path | str | None = None) -> Table:
    """The table 'claim | reported | reproduced here | holds?' for these claims, by model.

    A claim that no run has registered appears as such: it is never left out in silence.
    """
    wanted = [ids] if isinstance(ids, str) else list(ids)
    found = entries(folder)
    rows: list[tuple[Claim, Entry | None]] = []
    for claim_id in wanted:
        about = claim(claim_id)
        matching = [entry for entry in found if entry.id == claim_id]
        rows.extend((about, entry) for entry in matching or [None])
    return Table(tuple(rows))


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
        return "\n".join([*lines, "\n</div>"])


def resolve(name: str) -> Any:
    """Import the object with this dotted name; one `ResultError` where there is none."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        module_name = ".".join(parts[:split])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # Not a module: perhaps a class inside one. A module that misses an import is an error.
            if error.name is None or not module_name.startswith(error.name):
                raise ResultError(f"{module_name} cannot be imported ({error}).") from error
            continue
        for attribute in parts[split:]:
            if not hasattr(found, attribute):
                raise ResultError(f"{name} does not exist: no {attribute!r} in {module_name}.")
            found = getattr(found, attribute)
        return found
    raise ResultError(f"{name!r} is not the dotted name of something importable.")


def dotted_name(function: Callable[..., Any]) -> str:
    """'module.qualified_name' of a function or class."""
    return f"{function.__module__}.{function.__qualname__}"


def _path(claim_id: str, model: str, folder: Path | str | None) -> Path:
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.").lower() or "model"
    return (Path(folder) if folder else ledger_folder()) / f"{claim_id}--{slug}.json"


def _entry(path: Path) -> Entry:
    record = read_json(path)
    record.pop("versions", None)
    try:
        entry = Entry(**record)
    except TypeError as error:
        raise ResultError(f"{path} is not a ledger record ({error}); delete it.") from error
    if entry.verdict not in VERDICTS or entry.id not in claims():
        raise ResultError(
            f"{path} has an unknown claim or verdict ({json.dumps([entry.id, entry.verdict])}); "
            "delete it and rebuild."
        )
    return entry


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _ids(known: Mapping[str, Claim]) -> str:
    return ", ".join(known)
