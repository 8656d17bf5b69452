"""The command groups of `lnattn`: one module each, with `add_arguments(parser)` and `run(args)`.

`run` prints its result on standard output (everything else goes to standard error) and returns
None or an exit code. Heavy imports stay inside `run`, so that `lnattn --help` is quick.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def positive(text: str) -> int:
    """A whole number of at least 1, as the type of an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def add_json(parser: argparse.ArgumentParser, what: str = "the table as JSON") -> None:
    """Add --json; what: what it prints, in words."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def print_json(value: Any) -> None:
    """Print a value as indented JSON, in letters that the output can hold.

    Where that is no UTF-8 (a terminal in ASCII, a log), other letters are escaped as JSON does.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    print(json.dumps(value, indent=2, ensure_ascii=encoding != "utf8"))
