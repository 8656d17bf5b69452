"""What the commands `python -m experiments.NAME` share: options of a plan, one-sentence errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from lnattn.errors import LnattnError
from lnattn.paths import data_folder


def add_plan(parser: argparse.ArgumentParser, plan: type) -> None:
    """An option for each field of a plan, a frozen dataclass of numbers and words."""
    hints = get_type_hints(plan)
    for field in fields(plan):
        kind = hints[field.name] if hints[field.name] in (int, float) else str
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, metavar="VALUE")


def given_plan(args: argparse.Namespace, plan: type) -> dict[str, Any]:
    """The fields of the plan that were given on the command line."""
    named = {field.name: getattr(args, field.name) for field in fields(plan)}
    return {name: value for name, value in named.items() if value is not None}


def main(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], object]) -> int:
    """Parse, run, and turn the package's errors into one sentence and exit code 1."""
    args = parser.parse_args()
    try:
        run(args)
    except (LnattnError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted; the same command goes on", file=sys.stderr)
        return 130
    return 0


def new_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser that shows the description as it is written."""
    return argparse.ArgumentParser(
        prog=f"python -m experiments.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def tokenizer() -> Path:
    """Of the small models that ship with the book, and of those to be compared with them."""
    return data_folder() / "selectability-models" / "tokenizer"


def frozen(path: Path, kind: str, command: str) -> None:
    """Name in a frozen record its kind and the command that makes it again, and print its path.

    kind: one of `lnattn_book.frozen.kinds.READERS`; command: what follows `python -m experiments.`,
    with words in capitals for files that are not of the repository.
    """
    from lnattn_book.frozen.kinds import sign

    print(sign(path, kind, f"python -m experiments.{command}"))


def place(folder: Path | str) -> str:
    """A folder of frozen results as a command names it, wherever this one lies."""
    return f"data/results/{Path(folder).resolve().name}"
