"""The claims page's numbers, frozen: a build whose numbers differ from them fails.

`data/results/claims/MODEL.json` holds, for each record of the ledger, its verdict, the numbers in
its text and the numbers behind it, each with the difference that still counts as the same:

- an integer in the text (a number of heads): one thousandth of itself, so none for small ones;
- a decimal in the text: one unit of its last digit, or one thousandth of itself;
- a number behind the text: one thousandth of itself;
- what is below 1e-4 in size is the rounding error of an identity, and its digits are chance: it may
  grow a hundredfold or shrink;
- a claim's own tolerance, in `book/claims.yml`, where that is larger.

The texts are read because most of their numbers stand nowhere else: of 785 frozen ones 473 are none
of their record's values. `make freeze-claims` writes the file anew from the last build.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lnattn.claims.ledger import Entry, as_entry, in_order
from lnattn.claims.listed import Claim, claims
from lnattn.errors import LnattnError, ResultError
from lnattn.paths import FROZEN_CLAIMS, repository
from lnattn.storage import read_json, write_json

SHARE = 1e-3
ROUNDING = 1e-4
GROWTH = 100.0

#: What of an `Entry` is frozen as it stands.
_AS_FOUND = ("id", "model", "chapter", "verdict", "counted", "reproduced")

# Not part of a name (float64, T2), not a digit within a number; 1,234 and 5e-15 are one each.
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+−]?\d+)?")


def numbers_in(text: str) -> list[tuple[float, float]]:
    """The numbers in a text, each with the unit of its last digit (0 for an integer)."""
    found = []
    for match in _NUMBER.finditer(text):
        plain = match[0].replace("−", "-").replace(",", "")
        mantissa, _, exponent = plain.partition("e")
        decimals = len(mantissa.partition(".")[2])
        whole = not decimals and not exponent
        unit = 0.0 if whole else 10.0 ** (int(exponent or 0) - decimals)
        found.append((float(plain), unit))
    return found


def limits(number: float, unit: float = 0.0, tolerance: float | None = None) -> tuple[float, float]:
    """The smallest and the largest number that count as the same as this one."""
    if 0 < abs(number) < ROUNDING:
        reach = max(GROWTH * abs(number), tolerance or 0.0)
        return -reach, reach
    reach = max(unit, SHARE * abs(number), tolerance or 0.0)
    # A little more, so that one unit of the last digit is not lost to binary fractions.
    reach *= 1 + 1e-9
    return number - reach, number + reach


def freeze(found: Iterable[Entry], known: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """Records as they are frozen: verdicts, and numbers with their limits."""
    return [_frozen(entry, known[entry.id].tolerance) for entry in found]


def _frozen(entry: Entry, tolerance: float | None) -> dict[str, Any]:
    def bounded(number: float, unit: float = 0.0) -> dict[str, float]:
        low, high = limits(number, unit, tolerance)
        return {"is": number, "at_least": low, "at_most": high}

    return {
        **{name: getattr(entry, name) for name in _AS_FOUND},
        "numbers": [bounded(*found) for found in numbers_in(entry.reproduced)],
        "values": {
            name: bounded(value) if _is_number(value) else value
            for name, value in entry.values.items()
        },
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _was(value: Any) -> Any:
    """A frozen value as it was found, without its limits."""
    return value["is"] if isinstance(value, dict) else value


def path_of(model: str, root: Path) -> Path:
    """Where the claims of a model are frozen, by the last part of its name."""
    return root / FROZEN_CLAIMS / f"{Path(model).name}.json"


def read_frozen(model: str, root: Path) -> list[dict[str, Any]] | None:
    """The frozen records of a model, or None where there are none."""
    path = path_of(model, root)
    if not path.is_file():
        return None
    record = read_json(path)
    if record.get("model") != model or not isinstance(record.get("records"), list):
        raise ResultError(f"{path} is not a file of frozen claims of {model}; delete it.")
    return record["records"]


def frozen_entries(folder: Path) -> tuple[str, list[Entry]]:
    """The model of a frozen build, and its records, for where no build is at hand.

    folder: `data/results/claims`; of several builds the first by name counts. Without any, the name
    is '' and there are no records. Notes and figures are not frozen, so entries are without.
    """
    path = min(folder.glob("*.json"), default=None)
    if path is None:
        return "", []
    known, frozen = claims(), read_json(path)
    found = [
        Entry(
            **{name: record[name] for name in _AS_FOUND},
            function=known[record["id"]].function,
            note="",
            cell="",
            values={name: _was(value) for name, value in record["values"].items()},
        )
        for record in frozen["records"]
        if record["id"] in known
    ]
    return frozen["model"], in_order(found)


def differences(
    frozen: Sequence[Mapping[str, Any]], found: Sequence[Entry], pages: Iterable[str]
) -> Iterator[str]:
    """What is missing or differs beyond its limits, one sentence each.

    pages: those of the present build; what was frozen from others is passed over, so that a part of
    the book can be built. Records that were never frozen are no difference (see `not_frozen`).
    """
    present, now = set(pages), {_key(vars(entry)): entry for entry in found}
    for record in frozen:
        name = f"{record['id']} on {record['model']} ({record['chapter']})"
        entry = now.get(_key(record))
        if entry is None:
            if record["chapter"] in present:
                yield f"{name} is frozen, but this build did not register it"
        elif entry.verdict != record["verdict"]:
            yield f"{name}: the verdict was {record['verdict']!r}, now it is {entry.verdict!r}"
        else:
            yield from (f"{name}: {text}" for text in _numbers_that_differ(record, entry))


def not_frozen(frozen: Sequence[Mapping[str, Any]], found: Sequence[Entry]) -> list[Entry]:
    """The records that were registered but not frozen yet."""
    known = {_key(record) for record in frozen}
    return [entry for entry in found if _key(vars(entry)) not in known]


def _numbers_that_differ(record: Mapping[str, Any], entry: Entry) -> Iterator[str]:
    numbers = [number for number, _ in numbers_in(entry.reproduced)]
    if len(numbers) != len(record["numbers"]):
        yield f"{entry.reproduced!r} has other numbers than {record['reproduced']!r}"
        return
    yield from (
        f"{number:g} in {entry.reproduced!r} was {bounds['is']:g} in {record['reproduced']!r}"
        for number, bounds in zip(numbers, record["numbers"], strict=True)
        if not bounds["at_least"] <= number <= bounds["at_most"]
    )
    for key in sorted(record["values"].keys() | entry.values.keys()):
        old, new = record["values"].get(key), entry.values.get(key)
        if isinstance(old, dict) and _is_number(new):
            if not old["at_least"] <= new <= old["at_most"]:
                yield f"{key} was {old['is']:.6g}, now it is {new:.6g}"
        elif old != new:
            yield f"{key} was {_was(old)!r}, now it is {new!r}"


def _key(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["id"], record["model"], record["chapter"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Freeze the claims of the last build; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lnattn.claims.frozen",
        description="Freeze the claims of the last build, to compare later builds with.",
    )
    parser.add_argument("--root", type=Path, help="the repository (default: found by itself)")
    options = parser.parse_args(arguments)
    try:
        root = options.root or repository()
        site = root / "_build" / "html" / "claims.json"
        if not site.is_file():
            raise ResultError(f"{site} does not exist; build the book first: make book")
        built = read_json(site)
        found = [
            as_entry(record, f"{site}: {claim['id']}")
            for claim in built["claims"]
            for record in claim["found"]
        ]
        path = path_of(built["model"], root)
        write_json(
            path,
            {
                "model": built["model"],
                "records": freeze(found, claims()),
                "command": "make freeze-claims",
            },
        )
        print(f"froze {len(found)} records: {path}")
    except LnattnError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
