"""Compute a model's frozen results again and list what differs beyond the tolerances.

Without a model, all frozen results are read and checked against their checksums, and each is shown
with the command that makes it again.

For gpt2 the scores that the paper's authors printed are checked too. The exit code is 1 where
anything differs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from lnattn.commands.table import add_forms, print_csv

EXAMPLES = """examples:
  lnattn verify
  lnattn verify book-gpt2
  lnattn verify path/to/weights --as gpt2 --only position
  lnattn verify gpt2 --json
  lnattn verify --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="a model's name, a hub id, or a folder")
    parser.add_argument("--as", dest="name", metavar="NAME", help="the results' name")
    parser.add_argument("--folder", metavar="FOLDER", help="other than data/results/NAME")
    parser.add_argument("--only", nargs="+", metavar="STUDY", help="some studies (default: all)")
    parser.add_argument(
        "--counts", nargs=3, default=[], metavar="FILE", help="as for lnattn freeze"
    )
    add_forms(parser, json="{study: [differences]} as JSON", csv="what was checked as CSV")


def run(args: argparse.Namespace) -> int:
    found: dict[str, list[str]] = {}

    def rows() -> Iterator[dict[str, Any]]:
        for name, differences, words in _again(args) if args.model else _all(args):
            found[name] = differences
            yield {"name": name, "differences": differences, "words": words}

    if args.csv:
        print_csv(("name", "words", "differences"), rows())
    else:
        for row in rows():
            if not args.json:
                print(
                    "\n  ".join([f"{row['name']}: {row['words']}", *row["differences"]]), flush=True
                )
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    return int(any(found.values()))


# What was checked: its name, in what it differs, and a word for people.
Checked = tuple[str, list[str], str]


def _all(args: argparse.Namespace) -> Iterator[Checked]:
    from lnattn.book.results import command_of, read_all
    from lnattn.paths import data_folder

    results = Path(args.folder) if args.folder else data_folder() / "results"
    for path, wrong in read_all(results):
        words = "damaged" if wrong else f"whole; {command_of(path)}"
        yield str(path.relative_to(results)), [wrong] if wrong else [], words


def _again(args: argparse.Namespace) -> Iterator[Checked]:
    from lnattn.book.freezing import results_folder
    from lnattn.book.verifying import verify, verify_printed

    folder = Path(args.folder) if args.folder else results_folder(args.name or args.model)
    checks = verify(args.model, folder, args.only, args.counts)
    if folder.name == "gpt2" and not args.only:
        checks = chain(checks, verify_printed(args.model))
    for one in checks:
        words = f"not compared: {one.not_compared}" if one.not_compared else "agrees"
        yield one.study, list(one.differences), "differs" if one.differences else words
