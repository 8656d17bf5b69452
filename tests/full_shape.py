"""Freeze a model's studies in this one process, and tell how much memory each of them took.

`python full_shape.py CHECKPOINT FOLDER` prints a line a study: its name, and the highest resident
memory in GiB while it was computed (or so far, where the kernel's mark cannot be set back).
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

import lnattn_book.freezing  # noqa: F401  enters the book's studies
from lnattn import freezing


def peak_gib() -> float:
    """The highest resident memory of this process since it began, or since `forget`."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30  # macOS: bytes
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 2**20


def forget() -> None:
    """Set the mark back to what is resident now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main(checkpoint: str, folder: str) -> None:
    """Freeze every study but the long ones, in the order of `make publish`; none may be missing."""
    for frozen in freezing.freeze(checkpoint, folder):
        print(f"{frozen.study}: {peak_gib():.2f} GiB {frozen.why}", flush=True)
        forget()
        is_missing = frozen.path is None and not freezing.STUDIES[frozen.study].relative
        if is_missing:
            raise SystemExit(f"{frozen.study} was not computed, so its memory is not known.")


if __name__ == "__main__":
    main(*sys.argv[1:])
