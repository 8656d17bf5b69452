"""Print the claims beside what the book's last build found: `make claims`.

Without a build, it prints what was frozen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from lnattn.errors import LnattnError, ResultError
from lnattn.models.choice import default_model
from lnattn.paths import data_folder, repository
from lnattn.storage import read_json
from lnattn_book.claims import frozen
from lnattn_book.claims.ledger import as_record, report
from lnattn_book.claims.listed import claim, claims
from lnattn_book.claims.tally import sentence, tally
from lnattn_book.claims.verdicts import Record


def main(arguments: Sequence[str] | None = None) -> int:
    """Print claims, or freeze those of the last build; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lnattn_book.claims", description=__doc__)
    parser.add_argument("id", nargs="*", help="claims such as K5 (default: all)")
    parser.add_argument("--json", action="store_true", help="claims and findings as JSON")
    parser.add_argument("--freeze", action="store_true", help="freeze those of the last build")
    options = parser.parse_args(arguments)
    try:
        if options.freeze:
            model, found = built()
            path = frozen.write_frozen(model, found, repository())
            print(f"froze {len(found)} records: {path}")
        else:
            show(options.id, as_json=options.json)
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
    found = [as_record(one, f"{site}") for about in data["claims"] for one in about["found"]]
    return data["model"], found


def show(ids: Sequence[str], *, as_json: bool) -> None:
    """Print these claims, or all with the sentence that counts them."""
    chosen = [claim(name) for name in ids] or list(claims().values())
    try:
        model, found = built()
    except ResultError:
        model, found = frozen.frozen_records(data_folder() / "results" / "claims")
        what = f"these are the frozen results of one on {model}" if model else "no results"
        print(f"no build of the book is here: {what}", file=sys.stderr)
    if as_json:
        print(json.dumps(report(chosen, found), indent=2, ensure_ascii=False))
        return
    for about in chosen:
        print(f"{about.id} ({about.paper}, {about.section}): {about.statement}")
        print(f"    reported: {about.reported}")
        mine = [one for one in found if one.claim == about.id]
        for one in mine:
            print(f"    {one.mark} {one.model}: {one.verdict}: {one.words}")
        if not mine:
            print("    not computed yet: execute the book")
    if not ids:
        print(sentence(tally(chosen, found, model or default_model().name)))


if __name__ == "__main__":
    sys.exit(main())
