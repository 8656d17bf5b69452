"""The claims that the book checks, as `book/claims.yml` states them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from lnattn.errors import ResultError
from lnattn_book.page.places import repository

#: What a claim can be; a question of a paper is none of its claims, and is counted apart.
KINDS = ("derivation", "number", "trend", "cause", "question")

#: First letter of an id -> where its claims come from, in a few words.
SOURCES = {
    "K": "Kamoda et al. 2025",
    "B": "Brody et al. 2023",
    "R": "residual-stream slides",
    "M": "transformer notes",
    "F": "note on the reformulation",
    "S": "this book, on sub-words",
    "D": "this book, on distance",
    "U": "this book, on unselectable keys",
    "N": "this book, on normalisation",
}
#: The published checkpoints that claims are about, as `model` names them.
CHECKPOINTS = ("gpt2", "gpt2-medium")


@dataclass(frozen=True)
class Claim:
    """One claim, as `book/claims.yml` states it; what each field says is at the top of that file.

    texts: what readers are told of the results, with measures in braces. found: of a claim, or of
    its parts by name; note: what limits the verdict; short: the one number of a table; unsure: what
    would decide where an interval holds a limit; each: what arrays are of ('heads', if not said).
    aside: why the claim is open and likely to remain so; it has a paragraph then, and no table row.
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
    changed: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Any] = field(default_factory=dict)
    second: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""

    @property
    def could_fail(self) -> bool:
        """Whether more than a mistake could break it: no derivation, and no question."""
        return self.kind in ("number", "trend", "cause")

    @property
    def needs_checkpoint(self) -> bool:
        """Whether it is about one published checkpoint, and not about algebra or new models."""
        return self.model in CHECKPOINTS

    def is_about(self, model: str) -> bool:
        """Whether it is about this checkpoint; 'gpt2 (frozen)' counts as 'gpt2'."""
        return self.needs_checkpoint and model.split(" (")[0].rsplit("/", 1)[-1] == self.model

    def is_absent(self, models: Iterable[str]) -> bool:
        """Whether it is about a checkpoint that is none of these models."""
        return self.needs_checkpoint and not any(map(self.is_about, models))


@lru_cache
def claims(path: Path | None = None) -> dict[str, Claim]:
    """All claims by id, in the file's order; a malformed file is one `ResultError`."""
    source = path or repository() / "book" / "claims.yml"
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is
        listed = [Claim(**entry) for entry in yaml.load(source.read_text("utf-8"), loader)]
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise ResultError(f"{source} is no list of claims ({error}).") from error
    by_id = {entry.id: entry for entry in listed}
    if len(by_id) < len(listed):
        raise ResultError(f"{source} lists a claim twice; ids are unique.")
    return by_id


def claim(claim_id: str) -> Claim:
    """The claim with this id; an unknown id is one `ResultError`."""
    if claim_id not in (known := claims()):
        raise ResultError(f"claim {claim_id!r} is not in book/claims.yml: {', '.join(known)}.")
    return known[claim_id]
