"""Where files are: the repository that holds this package, its build folder, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from lnattn.errors import ResultError

#: The numbers that pages are checked against: no chapter computes with them.
FROZEN_CLAIMS = Path("data", "results", "claims")
#: What builds of the book on other machines found.
ATTESTATIONS = Path("data", "attestations")


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


def repository() -> Path:
    """The folder that holds `book/claims.yml`, above this file or the working directory."""
    for folder in (*Path(__file__).resolve().parents, Path.cwd(), *Path.cwd().parents):
        if (folder / "book" / "claims.yml").is_file():
            return folder
    raise ResultError(
        "book/claims.yml was not found above this package or the working directory; run from a "
        "clone of the book's repository."
    )
