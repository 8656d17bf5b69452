"""The forms in which a command prints its table: for people, as one JSON document, or as CSV.

In CSV a row is one finding: what a person's form folds into a line (the partners of a token, the
records of a claim) is a row each, lists are joined by '; ', and what is absent is an empty cell.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def add_forms(
    parser: argparse.ArgumentParser, json: str = "the table as JSON", csv: str = "it as CSV"
) -> None:
    """Add --json and --csv, one of which may be given; json, csv: what it prints, in words."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=f"print {json}")
    form.add_argument("--csv", action="store_true", help=f"print {csv}")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the rows as they come, below a line with the columns, on standard output.

    columns: the keys that are printed, in order; a row may lack some and hold others.
    """
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        table.writerow([_cell(row.get(name)) for name in columns])
        sys.stdout.flush()  # a study may take minutes


def _cell(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
