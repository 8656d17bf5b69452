"""Run one chapter and keep what came out: `python -m booksite.execute` (see `build`).

Jupytext reads the notebook, into the same cells as MyST-NB does; the same code runs them, and they
go into the build's cache under the same key. So the next build shows this run and does not repeat
it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution

from lnattn.claims.ledger import RECORD_PREFIX
from lnattn.claims.verdicts import VERDICTS
from lnattn.storage import write_atomically


def run(chapter: Path, cache_folder: Path, target: Path, timeout: int = 3600) -> int:
    """Execute a MyST notebook, write it with its outputs, cache it; returns the exit status."""
    notebook = jupytext.read(chapter, fmt="md:myst")
    result = single_nb_execution(
        notebook, cwd=str(chapter.parent), timeout=timeout, allow_errors=False
    )
    written = nbformat.writes(notebook).encode()
    write_atomically(target, lambda file: file.write(written))
    print(f"[book] {result.time:.0f} s; with its outputs: {target}", flush=True)
    if result.err is not None:
        print(result.exc_string, file=sys.stderr)
        return 1
    for line in verdicts(notebook):
        print(f"[book] {line}")
    get_cache(str(cache_folder)).cache_notebook_bundle(
        CacheBundleIn(notebook, str(chapter), data={"execution_seconds": result.time}),
        check_validity=False,
        overwrite=True,
    )
    return 0


def verdicts(notebook: Any) -> Iterator[str]:
    """One line for each claim that the notebook registered."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name", "")
            if name.startswith(RECORD_PREFIX):
                (text,) = output["data"].values()
                one = json.loads("".join(text))
                mark = VERDICTS[one["verdict"]]
                yield f"{mark} {one['id']} {one['verdict']} ({one['model']}): {one['reproduced']}"


def main(arguments: Sequence[str] | None = None) -> int:
    chapter, cache_folder, target = map(Path, sys.argv[1:] if arguments is None else arguments)
    return run(chapter, cache_folder, target)


if __name__ == "__main__":
    sys.exit(main())
