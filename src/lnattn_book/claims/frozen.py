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
from lnattn.paths import FROZEN_CLAIMS
from lnattn.storage import read_json, write_json
from lnattn_book.claims.ledger import as_record, in_order
from lnattn_book.claims.listed import claims
from lnattn_book.claims.verdicts import Record

SHARE = 1e-3
ROUNDING = 1e-4
GROWTH = 100.0
COMMAND = "make freeze-claims"


def alike(was: Any, now: Any, tolerance: float | None = None) -> bool:
    """Whether a value counts as the same as a frozen one."""
    if isinstance(was, bool | str) or not isinstance(now, int | float) or now is None:
        return was == now
    if not isinstance(was, int | float):
        return False
    if 0 < abs(was) < ROUNDING:
        return abs(now) <= max(GROWTH * abs(was), tolerance or 0.0)
    return was == now or abs(now - was) <= max(SHARE * abs(was), tolerance or 0.0) * (1 + 1e-9)


def path_of(model: str, root: Path) -> Path:
    """Where the claims of a model are frozen, by the last part of its name."""
    return root / FROZEN_CLAIMS / f"{Path(model).name}.json"


def write_frozen(model: str, found: Sequence[Record], root: Path) -> Path:
    """Freeze the records of a build; returns the file."""
    # The rounding of a build's run is no part of it: places in pages are found anew.
    kept = [{**asdict(one), "execution": 0} for one in found]
    return write_json(path_of(model, root), {"model": model, "records": kept, "command": COMMAND})


def read_frozen(model: str, root: Path) -> list[Record] | None:
    """The frozen records of a model, or None where there are none."""
    path = path_of(model, root)
    if not path.is_file():
        return None
    frozen_model, found = _read(path)
    if frozen_model != model:
        raise ResultError(f"{path} is not a file of frozen claims of {model}; delete it.")
    return found


def frozen_records(folder: Path) -> tuple[str, list[Record]]:
    """The model of a frozen build, and its records; of several the first by name; '' if none."""
    path = min(folder.glob("*.json"), default=None)
    return ("", []) if path is None else _read(path)


def _read(path: Path) -> tuple[str, list[Record]]:
    data = read_json(path)
    try:
        listed = [one for one in data["records"] if one["claim"] in claims()]
        return data["model"], in_order(as_record(one, str(path)) for one in listed)
    except (KeyError, TypeError) as error:
        raise ResultError(f"{path} holds no frozen claims ({error!r}); {COMMAND}.") from error


def differences(
    frozen: Sequence[Record], found: Sequence[Record], pages: Iterable[str]
) -> Iterator[str]:
    """What is missing or differs, one sentence each.

    pages: those of the present build; what was frozen from others is passed over, so that a part of
    the book can be built. Records and values that were never frozen are no difference.
    """
    present, now = set(pages), {_key(one): one for one in found}
    for was in frozen:
        name = f"{was.claim} on {was.model} ({was.chapter})"
        one = now.get(_key(was))
        if one is None:
            if was.chapter in present:
                yield f"{name} is frozen, but this build did not register it"
        elif one.verdict != was.verdict:
            yield f"{name}: the verdict was {was.verdict!r}, now it is {one.verdict!r}"
        else:
            tolerance = claims()[was.claim].tolerance
            for key, old in was.values.items():
                if not alike(old, new := one.values.get(key), tolerance):
                    yield f"{name}: {key} was {old!r}, now it is {new!r}"


def not_frozen(frozen: Sequence[Record], found: Sequence[Record]) -> list[Record]:
    """The records that were registered but not frozen yet."""
    known = {_key(one) for one in frozen}
    return [one for one in found if _key(one) not in known]


def _key(one: Record) -> tuple[str, str, str]:
    return one.claim, one.model, one.chapter
