"""Where files are: the repository that holds this package, its build folder, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from lnattn.errors import ResultError

#: The list of claims in an installed package (see `pyproject.toml`); not in a repository.
PACKAGED_CLAIMS = Path(__file__).resolve().parent / "data" / "claims.yml"
#: The numbers that pages are checked against: no chapter computes with them.
FROZEN_CLAIMS = Path("data", "results", "claims")


def data_folder() -> Path:
    """The embedded model, counts and frozen results: $LNATTN_DATA if set, else what ships.

    That is `data` inside an installed package, and the repository's where it runs from source.
    """
    if chosen := os.environ.get("LNATTN_DATA"):
        return Path(chosen)
    package = Path(__file__).resolve().parent
    installed = package / "data"
    return installed if installed.is_dir() else package.parents[1] / "data"


def cache_folder() -> Path:
    """Where the package keeps what it can make again: $LNATTN_CACHE, else ~/.cache/lnattn.

    $XDG_CACHE_HOME is ~/.cache under another name; empty or relative, it is as good as unset.
    """
    if chosen := os.environ.get("LNATTN_CACHE"):
        return Path(chosen)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "lnattn"


def find_repository() -> Path | None:
    """The folder that holds `book/claims.yml`, above this file or the working directory."""
    for start in (Path(__file__).resolve(), Path.cwd().resolve()):
        for folder in start.parents if start.is_file() else (start, *start.parents):
            if (folder / "book" / "claims.yml").is_file():
                return folder
    return None


def repository() -> Path:
    """The folder that `find_repository` finds; `ResultError` where there is none."""
    found = find_repository()
    if found is None:
        raise ResultError(
            "book/claims.yml was not found above this package or the working directory; "
            "run from a clone of the book's repository."
        )
    return found


def claims_file() -> Path:
    """The list of claims: the repository's, else the copy in the installed package."""
    found = find_repository()
    return found / "book" / "claims.yml" if found else PACKAGED_CLAIMS
