"""Compute a model's frozen results again and list what differs beyond the tolerances.

Without a model, all frozen results are read and checked against their checksums, and each is shown
with the command that makes it again.

For gpt2 the scores that the paper's authors printed are checked too. The exit code is 1 where
anything differs.
"""

from __future__ import annotations

import argparse
import json
from itertools import chain
from pathlib import Path

EXAMPLES = """examples:
  lnattn verify
  lnattn verify book-gpt2
  lnattn verify path/to/weights --as gpt2 --only position
  lnattn verify gpt2 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="a model's name, a hub id, or a folder")
    parser.add_argument("--as", dest="name", metavar="NAME", help="the results' name")
    parser.add_argument("--folder", metavar="FOLDER", help="other than data/results/NAME")
    parser.add_argument("--only", nargs="+", metavar="STUDY", help="some studies (default: all)")
    parser.add_argument(
        "--counts", nargs=3, default=[], metavar="FILE", help="as for lnattn freeze"
    )
    parser.add_argument("--json", action="store_true", help="print {study: [differences]} as JSON")


def run(args: argparse.Namespace) -> int:
    return _again(args) if args.model else _all(args)


def _all(args: argparse.Namespace) -> int:
    from lnattn.book.results import command_of, read_all
    from lnattn.paths import data_folder

    results = Path(args.folder) if args.folder else data_folder() / "results"
    found = {}
    for path, wrong in read_all(results):
        found[str(path.relative_to(results))] = [wrong] if wrong else []
        if not args.json:
            print(f"{path.relative_to(results)}: {wrong or f'whole; {command_of(path)}'}")
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    return int(any(found.values()))


def _again(args: argparse.Namespace) -> int:
    from lnattn.book.freezing import results_folder, verify, verify_printed

    folder = Path(args.folder) if args.folder else results_folder(args.name or args.model)
    found = {}
    checks = verify(args.model, folder, args.only, args.counts)
    if folder.name == "gpt2" and not args.only:
        checks = chain(checks, verify_printed(args.model))
    for comparison in checks:
        found[comparison.study] = list(comparison.differences)
        if not args.json:
            words = "agrees" if comparison.agrees else "differs"
            if comparison.not_compared:
                words = f"not compared: {comparison.not_compared}"
            print(
                "\n  ".join([f"{comparison.study}: {words}", *comparison.differences]), flush=True
            )
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    return int(any(found.values()))
