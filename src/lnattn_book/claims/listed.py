"""The claims that the book checks, as `book/claims.yml` states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from lnattn.errors import ResultError
from lnattn.paths import claims_file

_ID = re.compile(r"[KBRMSDUN][1-9][0-9]*")
KINDS = ("derivation", "number", "trend", "cause")
_TEST = re.compile(r"(experiments/)?tests/\w+\.py::test_\w+")

#: First letter of an id -> where its claims come from, in a few words.
SOURCES = {
    "K": "Kamoda et al. 2025",
    "B": "Brody et al. 2023",
    "R": "residual-stream slides",
    "M": "transformer notes",
    "S": "this book, on sub-words",
    "D": "this book, on distance",
    "U": "this book, on unselectable keys",
    "N": "this book, on normalisation",
}
#: The published checkpoints that claims are about, as `model` names them.
CHECKPOINTS = ("gpt2",)


@dataclass(frozen=True)
class Claim:
    """One claim, as `book/claims.yml` states it.

    paper: BibTeX key; section: where the paper says it; line: the claim in twelve words; reported:
    the paper's value or picture; rule: the parameters of its rule (see `verdicts`), numbers by
    name; words: the rule for readers; kind: one of `KINDS`; tolerance: the largest difference from
    a frozen number that still counts as the same in a later build, or None; function: dotted name
    of what computes it; model: what the claim is about; chapter: the notebook that computes it;
    test: the test of that computation (`tests/FILE.py::test_NAME`); measure: what
    `Record.short` is; quote: the source's own words, where it has some without a formula; changed:
    date and reason of a rule's change after its numbers.
    """

    id: str
    paper: str
    section: str
    line: str
    kind: str
    statement: str
    reported: str
    rule: Mapping[str, Any]
    words: str
    tolerance: float | None
    function: str
    model: str
    chapter: str
    test: str
    measure: str = ""
    quote: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether the book makes it, and no source does."""
        return self.id[0] in "SDUN"

    @property
    def source(self) -> str:
        """Where the claim comes from, in a few words."""
        return SOURCES[self.id[0]]

    @property
    def needs_checkpoint(self) -> bool:
        """Whether it is about one published checkpoint, and not about algebra or new models."""
        return self.model in CHECKPOINTS

    def is_about(self, model: str) -> bool:
        """Whether it is about this checkpoint; 'gpt2 (frozen)' counts as 'gpt2'."""
        return self.needs_checkpoint and model.split(" (")[0].rsplit("/", 1)[-1] == self.model


def claims(path: Path | str | None = None) -> dict[str, Claim]:
    """All claims by id, in the file's order; a malformed file is one `ResultError`."""
    source = Path(path) if path else claims_file()
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
        claim = _claim(f"{source}: claim number {number}", item)
        if claim.id in found:
            raise ResultError(f"{source} lists claim {claim.id} twice; ids are unique.")
        found[claim.id] = claim
    return found


def _claim(place: str, item: Any) -> Claim:
    known = {one.name for one in fields(Claim)}
    optional = {one.name for one in fields(Claim) if one.default is not MISSING} | {"changed"}
    got = set(item) if isinstance(item, dict) else set()
    if not known - optional <= got <= known:
        missing, unknown = sorted(known - optional - got), sorted(got - known)
        raise ResultError(f"{place}: missing {missing}, unknown {unknown}.")
    wrong = next((key for key, value in item.items() if not _fits(key, value)), None)
    if wrong:
        raise ResultError(f"{place}: {wrong} {_WANTED.get(wrong, 'must be text, not empty')}.")
    return Claim(**item)


#: What a key's value must be, where it is not just text.
_WANTED = {
    "id": f"must be one of {', '.join(SOURCES)} and a number",
    "kind": f"must be one of {', '.join(KINDS)}",
    "rule": "must map names to numbers or to lists",
    "changed": "must have a date and a reason: why",
    "tolerance": "must be null or ≥ 0",
    "test": "must be tests/FILE.py::test_NAME",
}


def _fits(key: str, value: Any) -> bool:
    if key == "tolerance":
        return value is None or (_is_parameter(value) and value >= 0)
    if key == "rule":
        return isinstance(value, dict) and all(map(_is_parameter, value.values()))
    if key == "changed":
        return isinstance(value, dict) and set(value) == {"date", "why"}
    if not isinstance(value, str) or not value.strip():
        return False
    pattern = {"id": _ID, "test": _TEST}.get(key)
    return value in KINDS if key == "kind" else not pattern or bool(pattern.fullmatch(value))


def _is_parameter(value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)


def claim(claim_id: str) -> Claim:
    """The claim with this id; an unknown id is one `ResultError`."""
    known = claims()
    if claim_id not in known:
        raise ResultError(
            f"claim {claim_id!r} is not in book/claims.yml, which has {', '.join(known)}."
        )
    return known[claim_id]
