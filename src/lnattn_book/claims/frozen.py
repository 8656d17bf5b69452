"""The claims page's numbers, frozen: a build whose verdicts or values differ from them fails.

`data/results/claims/MODEL.json` holds the records of a whole build: `make freeze-claims` writes it.
A value may differ by one thousandth of itself, or by its claim's own tolerance; what is below 1e-4
in size is the rounding error of an identity, whose digits are chance: it may grow a hundredfold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lnattn.errors import ResultError
from lnattn.storage import read_json, write_json
from lnattn_book.claims.ledger import as_record, in_order
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Record
from lnattn_book.page.places import FROZEN_CLAIMS

SHARE = 1e-3
ROUNDING = 1e-4
GROWTH = 100.0
COMMAND = "make freeze-claims"


def alike(was: Any, now: Any, tolerance: float | None = None) -> bool:
    """Whether a value counts as the same as a frozen one."""
    numbers = [isinstance(x, int | float) and not isinstance(x, bool) for x in (was, now)]
    if not all(numbers):
        return type(was) is type(now) and was == now
    if 0 < abs(was) < ROUNDING:
        return abs(now) <= max(GROWTH * abs(was), tolerance or 0.0)
    return abs(now - was) <= max(SHARE * abs(was), tolerance or 0.0) * (1 + 1e-9)


def write_frozen(model: str, records: Sequence[Record], root: Path) -> Path:
    """Freeze the records of a build on a model below a root; returns the file."""
    # The rounding of a build's run is no part of it: places in pages are found anew.
    rows = [{**asdict(record), "execution": 0} for record in records]
    path = root / FROZEN_CLAIMS / f"{Path(model).name}.json"
    named = {"command": COMMAND, "kind": "claims"}
    return write_json(path, {"model": model, "records": rows, **named})


def frozen_records(folder: Path, model: str = "") -> tuple[str, list[Record]]:
    """The model of a frozen build, and its records; ('', []) where there is none.

    model: whose build; where it is not said, the first by name.
    """
    path = min(folder.glob(f"{Path(model).name if model else '*'}.json"), default=None)
    if path is None:
        return "", []
    data = read_json(path)
    try:
        listed = [row for row in data["records"] if row["claim"] in claims()]
        return data["model"], in_order(as_record(row, str(path)) for row in listed)
    except (KeyError, TypeError) as error:
        raise ResultError(f"{path} holds no frozen claims ({error!r}); {COMMAND}.") from error


def differences(
    frozen: Sequence[Record], records: Sequence[Record], pages: Iterable[str]
) -> Iterator[str]:
    """What is missing or differs, one sentence each.

    pages: those of the present build; what was frozen from others is passed over, so that a part of
    the book can be built. Records and values that were never frozen are no difference.
    """
    present = set(pages)
    now = {(record.claim, record.model, record.chapter): record for record in records}
    for was in frozen:
        name = f"{was.claim} on {was.model} ({was.chapter})"
        record = now.get((was.claim, was.model, was.chapter))
        if record is None:
            if was.chapter in present:
                yield f"{name} is frozen, but this build did not register it"
        elif record.verdict != was.verdict:
            yield f"{name}: the verdict was {was.verdict!r}, now it is {record.verdict!r}"
        else:
            tolerance = claims()[was.claim].tolerance
            for key, old in was.values.items():
                if not alike(old, new := record.values.get(key), tolerance):
                    yield f"{name}: {key} was {old!r}, now it is {new!r}"


def two_verdicts(records: Iterable[Record]) -> Iterator[str]:
    """Claims that have two verdicts for one model, in words: a claim has one rule."""
    verdicts: dict[tuple[str, str], str] = {}
    for record in records:
        verdict = verdicts.setdefault((record.claim, record.model), record.verdict)
        if verdict != record.verdict:
            both = f"{verdict}, {record.verdict}"
            yield f"claim {record.claim} has two verdicts on {record.model}: {both}"
