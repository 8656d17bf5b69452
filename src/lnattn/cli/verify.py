"""Compute a model's frozen results again and list what differs beyond the tolerances.

Without a model, all frozen results are read and checked against their checksums, and each is shown
with the command that makes it again. The exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn verify
  lnattn verify book-gpt2
  lnattn verify path/to/weights --as gpt2 --only position
  lnattn verify gpt2 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", nargs="?", help="a model's name, a hub id, or a folder")
    add("--as", dest="name", metavar="NAME", help="the results' name")
    add("--folder", metavar="FOLDER", help="other than data/results/NAME")
    add("--only", nargs="+", metavar="STUDY", help="some studies (default: all)")
    add("--counts", nargs=3, default=[], metavar="FILE", help="as for lnattn freeze")
    add_json(parser, "{study: [differences]} as JSON")


def run(args: argparse.Namespace) -> int:
    differences_of: dict[str, list[str]] = {}
    for name, differences, words in _checked(args):
        differences_of[name] = differences
        if not args.json:
            print("\n  ".join([f"{name}: {words}", *differences]), flush=True)
    if args.json:
        print_json(differences_of)
    return int(any(differences_of.values()))


def _checked(args: argparse.Namespace) -> Iterator[tuple[str, list[str], str]]:
    """What was checked: its name, in what it differs, and a word for people."""
    from lnattn.freezing import read_all, results_folder, verify
    from lnattn.paths import data_folder

    if not args.model:
        results = Path(args.folder) if args.folder else data_folder() / "results"
        for path, fault, command in read_all(results):
            words = "damaged" if fault else f"whole; {command}"
            yield str(path.relative_to(results)), [fault] if fault else [], words
        return
    folder = Path(args.folder) if args.folder else results_folder(args.name or args.model)
    for comparison in verify(args.model, folder, args.only, args.counts):
        words = f"not compared: {comparison.not_compared}" if comparison.not_compared else "agrees"
        yield (
            comparison.study,
            list(comparison.differences),
            "differs" if comparison.differences else words,
        )
