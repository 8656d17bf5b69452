"""How much memory a build takes: the largest resident set (VmHWM) of each process it starts.

Linux tells of every process what it held at most; a thread of the build reads that a few times a
second of all its descendants. Elsewhere nothing is measured.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lnattn.storage import write_json

#: A kernel's environment names its chapter here, see `booksite.execute`.
CHAPTER = "LNATTN_CHAPTER"
#: GiB that no process of a build may exceed: on a model as small as the embedded one, on others.
SMALL_LIMIT, LARGE_LIMIT = 2.5, 3.5
_PACE = 0.25
_PROC = Path("/proc")


@dataclass
class Peaks:
    """The largest resident set of each process seen, in GiB, by process id, and its name."""

    gib: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def look(self, pid: int) -> None:
        """Read the process and its descendants; those that have ended keep what was seen."""
        for one in (pid, *descendants(pid)):
            try:
                status = (_PROC / str(one) / "status").read_text()
                self.names[one] = self.names.get(one) or name_of(one)
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    self.gib[one] = int(line.split()[1]) / 2**20

    def largest(self, count: int = 3) -> list[tuple[str, float]]:
        """The names and sizes of the largest processes, the largest first."""
        order = sorted(self.gib, key=lambda pid: self.gib[pid], reverse=True)
        return [(self.names[pid], self.gib[pid]) for pid in order[:count]]


def descendants(pid: int) -> Iterator[int]:
    """The ids of all processes below this one."""
    for tasks in _PROC.glob(f"{pid}/task/*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def name_of(pid: int) -> str:
    """What a process is to the reader of a build: a chapter's kernel, or a command."""
    words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    if any("ipykernel" in word for word in words):
        settings = (_PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
        chapters = [one.partition("=")[2] for one in settings if one.startswith(f"{CHAPTER}=")]
        return f"the kernel of {chapters[0]}" if chapters else "a kernel that Sphinx started"
    text = " ".join(words)
    known = {"jupyter_book": "Sphinx", "booksite.execute": "the runner of chapters"}
    return next((name for word, name in known.items() if word in text), Path(words[0]).name)


def report(peaks: Peaks, limit: float, target: Path) -> list[str]:
    """Sentences on the largest processes; the peaks are written to `target` as JSON.

    limit: GiB above which a process is named in a warning. Empty where nothing could be measured.
    """
    found = peaks.largest()
    write_json(target, {"limit": limit, "gib": {name: round(size, 2) for name, size in found}})
    if not found:
        return []
    told = ", ".join(f"{name} {size:.2f} GiB" for name, size in found)
    said = [f"memory: the largest processes were {told}"]
    said += [
        f"WARNING: {name} took {size:.2f} GiB of memory; no process is to take more than {limit}"
        for name, size in found
        if size > limit
    ]
    return said


@contextmanager
def measured() -> Iterator[Peaks]:
    """Inside, this process and its descendants are watched; the peaks are whole afterwards."""
    peaks, finished = Peaks(), threading.Event()

    def follow() -> None:
        last = False
        while not last:
            last = finished.wait(_PACE)
            peaks.look(os.getpid())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        finished.set()
        thread.join()
