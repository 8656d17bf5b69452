"""Where the book's files are: the repository that holds this package, and its build folder."""

from __future__ import annotations

import os
from pathlib import Path

from lnattn.errors import ResultError


def repository() -> Path:
    """The folder that holds `book/claims.yml`: above this file, or above the working directory.

    Raises `ResultError` where there is none (the package was installed without its book).
    """
    for start in (Path(__file__).resolve(), Path.cwd().resolve()):
        for folder in start.parents if start.is_file() else (start, *start.parents):
            if (folder / "book" / "claims.yml").is_file():
                return folder
    raise ResultError(
        "book/claims.yml was not found above this package or the working directory; "
        "run from a clone of the book's repository."
    )


def ledger_folder() -> Path:
    """Where chapters write what they found: LNATTN_LEDGER, else `_build/ledger`."""
    named = os.environ.get("LNATTN_LEDGER")
    return Path(named) if named else repository() / "_build" / "ledger"
