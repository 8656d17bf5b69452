"""The claims of the papers beside what the book's chapters found when they were last executed.

Where no build of the book is at hand, as with an installed package, it prints what was frozen.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from lnattn.commands.table import add_forms, print_csv

EXAMPLES = """examples:
  lnattn claims                    all claims, with the verdicts there are
  lnattn claims K5 K10 --json
  lnattn claims --csv > claims.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="*", help="claims such as K5 (default: all)")
    add_forms(parser, json="claims and findings as JSON", csv="them as CSV, a row a finding")


#: The columns of a finding in CSV: of its claim, then of one model.
COLUMNS = (
    ("id", "paper", "section", "statement", "reported"),
    ("model", "verdict", "reproduced", "rule", "note", "chapter"),
)


def run(args: argparse.Namespace) -> None:
    from lnattn.claims.frozen import frozen_entries
    from lnattn.claims.ledger import entries, report
    from lnattn.claims.listed import claim, claims
    from lnattn.claims.tally import tally
    from lnattn.claims.verdicts import VERDICTS
    from lnattn.models.choice import default_model
    from lnattn.paths import data_folder, find_repository

    chosen = [claim(name) for name in args.id] or list(claims().values())
    built = os.environ.get("LNATTN_LEDGER") or find_repository()
    found, model = entries() if built else [], ""
    if not found:
        model, found = frozen_entries(data_folder() / "results" / "claims")
        print(f"no build of the book is here: {_frozen(model)}", file=sys.stderr)
    rows = report(chosen, found)
    if args.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if args.csv:
        found_of = (
            {
                **{name: row[name] for name in COLUMNS[0]},
                **{name: one.get(name) for name in COLUMNS[1]},
            }
            for row in rows
            for one in row["found"] or [{}]
        )
        print_csv((*COLUMNS[0], *COLUMNS[1]), found_of)
        return
    for row in rows:
        print(f"{row['id']} ({row['paper']}, {row['section']}): {row['statement']}")
        print(f"    reported: {row['reported']}")
        for entry in row["found"]:
            mark = VERDICTS[entry["verdict"]]
            print(f"    {mark} {entry['model']}: {entry['verdict']}: {entry['reproduced']}")
        if not row["found"]:
            print("    not computed yet: execute the book")
    if not args.id:
        print(tally(chosen, found, model or default_model().name).sentence())


def _frozen(model: str) -> str:
    """What is shown instead, in words."""
    return f"these are the frozen results of one on {model}" if model else "no results"
