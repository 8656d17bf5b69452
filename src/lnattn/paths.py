"""Where files are: data that ships with the package, and the cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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

    $XDG_CACHE_HOME is ~/.cache under another name; empty or relative, it is as good as unset. Of a
    user who has no home it lies where temporary files do.
    """
    if chosen := os.environ.get("LNATTN_CACHE"):
        return Path(chosen)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if caches.is_absolute():
        return caches / "lnattn"
    try:
        return Path.home() / ".cache" / "lnattn"
    except RuntimeError:  # a user without a home, or without a name
        return Path(tempfile.gettempdir()) / f"lnattn-{os.getuid()}"
