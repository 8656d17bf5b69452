"""What a run has found is kept at once: an interrupted experiment goes on from there."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.errors import ResultError
from lnattn.storage import provenance, read_result, write_result


def once(
    folder: Path | str,
    name: str,
    settings: Mapping[str, Any],
    make: Callable[[], Mapping[str, np.ndarray]],
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a run and its record: read where they are there, else made, and written.

    settings: plain values, all that decides the run; what is there with others is one
    `ResultError`. The record has them, and the `seconds` that the run took.
    """
    settings = json.loads(json.dumps(settings))
    if all((Path(folder) / f"{name}{ending}").is_file() for ending in (".json", ".npz")):
        arrays, record = read_result(folder, name)
        if record.get("settings") != settings:
            raise ResultError(
                f"{Path(folder) / name}.json is of other settings; delete it, or name another "
                "folder."
            )
        return arrays, record
    begun = time.perf_counter()
    arrays = dict(make())
    record = provenance(settings=settings, seconds=round(time.perf_counter() - begun, 1))
    write_result(folder, name, arrays, record)
    return arrays, record


def forget(folder: Path, files: str) -> None:
    """Delete what an experiment has kept of its runs, and its folder if nothing else is in it."""
    for path in folder.glob(files):
        path.unlink()
    with contextlib.suppress(OSError):  # there is something that no run has left
        folder.rmdir()
