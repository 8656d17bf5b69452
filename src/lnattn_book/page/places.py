"""Where the book's files are: the repository, frozen claims, what other machines sent."""

from __future__ import annotations

from pathlib import Path

from lnattn.errors import ResultError

#: The numbers that pages are checked against: no chapter computes with them.
FROZEN_CLAIMS = Path("data", "results", "claims")
#: What builds of the book on other machines found.
ATTESTATIONS = Path("data", "attestations")


def repository() -> Path:
    """The folder that holds `book/claims.yml`, above this file or the working directory.

    Raises `ResultError` where there is none: an installed package has no book.
    """
    for folder in (*Path(__file__).resolve().parents, Path.cwd(), *Path.cwd().parents):
        if (folder / "book" / "claims.yml").is_file():
            return folder
    raise ResultError(
        "book/claims.yml was not found above this package or the working directory; run from a "
        "clone of the book's repository."
    )
