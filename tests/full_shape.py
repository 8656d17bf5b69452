"""Freeze a model's studies in this one process, and tell how much memory each of them took.

`python full_shape.py CHECKPOINT FOLDER` prints a line a study: its name, and the highest resident
memory in GiB while it was computed (or so far, where the kernel's mark cannot be set back).
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

from lnattn import freezing
from lnattn_book.frozen.making import enter_studies

#: GiB that the largest process of a build on GPT-2 may take; 3.5 are promised.
MOST = 3.0


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
    """Freeze every study but the long ones, in the order of `make publish`.

    Ends with status 1 where one is missing, or took more than `MOST`: the kernel's mark at the end
    of the process is that of the last study alone.
    """
    enter_studies()
    too_large = []
    for frozen in freezing.freeze(checkpoint, folder):
        gib = peak_gib()
        print(f"{frozen.study}: {gib:.2f} GiB {frozen.why}", flush=True)
        if gib > MOST:
            too_large.append(frozen.study)
        forget()
        is_missing = frozen.path is None and not freezing.STUDIES[frozen.study].relative
        if is_missing:
            raise SystemExit(f"{frozen.study} was not computed, so its memory is not known.")
    if too_large:
        raise SystemExit(f"{', '.join(too_large)} took more than {MOST} GiB.")


if __name__ == "__main__":
    main(*sys.argv[1:])
