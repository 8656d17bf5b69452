"""What tests of processes have done in them, with little to import."""

from __future__ import annotations

import os
import time
from pathlib import Path


def doubled(number: int) -> tuple[int, int]:
    """Twice the number, and this process."""
    return 2 * number, os.getpid()


def ended(status: int) -> None:
    """End this process at once."""
    os._exit(status)


def meeting(folder: Path) -> bool:
    """Whether two of these are at work at the same time."""
    (folder / str(os.getpid())).touch()
    until = time.monotonic() + 30
    while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return time.monotonic() < until


def marked(path: Path) -> bytes:
    """Leave a file, after a moment if it is called 'slow', and give more than a pipe holds."""
    time.sleep(1 if path.name == "slow" else 0)
    path.touch()
    return bytes(1 << 20)


def large(seconds: float) -> bytes:
    """Say that it has begun, and give more than a pipe holds after so long."""
    os.write(1, b"begun\n")  # at one go: another process writes there, too
    time.sleep(seconds)
    return bytes(1 << 20)
