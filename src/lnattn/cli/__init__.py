"""The command groups of `lnattn`: one module each, with `add_arguments(parser)` and `run(args)`.

`run` prints its result on standard output (everything else goes to standard error) and returns
None or an exit code. Heavy imports stay inside `run`, so that `lnattn --help` is quick.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def positive(text: str) -> int:
    """A whole number of at least 1, as the type of an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def add_forms(
    parser: argparse.ArgumentParser, json: str = "the table as JSON", csv: str = "it as CSV"
) -> None:
    """Add --json and --csv, one of which may be given; json, csv: what it prints, in words."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=f"print {json}")
    form.add_argument("--csv", action="store_true", help=f"print {csv}")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print these columns of the rows as they come, a row a finding, lists joined by '; '."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        cells = (row.get(name) for name in columns)
        table.writerow("; ".join(map(str, c)) if isinstance(c, list | tuple) else c for c in cells)
        sys.stdout.flush()  # a study may take minutes
