"""The claims beside what the book's last build found, or else what was frozen: `make claims`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from lnattn.errors import LnattnError, ResultError
from lnattn.storage import read_json
from lnattn_book.claims import frozen
from lnattn_book.claims.ledger import as_record
from lnattn_book.claims.listed import claim, claims
from lnattn_book.claims.verdicts import Record
from lnattn_book.page.places import FROZEN_CLAIMS, repository


def main(arguments: Sequence[str] | None = None) -> int:
    """Print claims, or freeze those of the last build; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lnattn_book.claims", description=__doc__)
    parser.add_argument("id", nargs="*", help="claims such as K5 (default: all)")
    parser.add_argument("--freeze", action="store_true", help="freeze those of the last build")
    options = parser.parse_args(arguments)
    try:
        if options.freeze:
            print(f"froze {frozen.write_frozen(*built(), repository())}")
        else:
            show(options.id or claims())
    except LnattnError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def built() -> tuple[str, list[Record]]:
    """The model of the last build, and its records."""
    site = repository() / "_build" / "html" / "claims.json"
    if not site.is_file():
        raise ResultError(f"{site} does not exist; build the book first: make book")
    data = read_json(site)
    records = [
        as_record(record, f"{site}") for about in data["claims"] for record in about["found"]
    ]
    return data["model"], records


def show(ids: Iterable[str]) -> None:
    """Print these claims, and under each a line for each model."""
    chosen = [claim(name) for name in ids]
    try:
        _, records = built()
    except ResultError:
        model, records = frozen.frozen_records(repository() / FROZEN_CLAIMS)
        print(f"no build of the book is here; frozen on {model or 'no model'}:", file=sys.stderr)
    for about in chosen:
        print(f"{about.id}: {about.line}")
        mine = [f"    {record.mark} {record}" for record in records if record.claim == about.id]
        print("\n".join(dict.fromkeys(mine)) or "    not computed yet: execute the book")


if __name__ == "__main__":
    sys.exit(main())
