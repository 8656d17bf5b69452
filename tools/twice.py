"""Build two copies from nothing and compare their numbers: `python tools/twice.py` (`make twice`).

The claims, the downloads, the explorer's data and the figures must be the same byte for byte.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What is compared, below the built site.
PARTS = ("claims.json", "_downloads", "_static/explorer", "_images")


def built(copy: Path) -> Path:
    """The site of a fresh clone of this repository at `copy`; `SystemExit` where it fails."""
    subprocess.run(["git", "clone", "--quiet", ROOT, copy], check=True)
    told = {"LNATTN_STUDIES": str(copy / "studies"), "PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-m", "booksite.build", "--root", copy]
    status = subprocess.run(command, env={**os.environ, **told}, check=False).returncode
    if status:
        sys.exit(status)
    return copy / "_build" / "html"


def differences(first: Path, other: Path) -> Iterator[str]:
    """The files below `PARTS` that are not the same in both, or in one alone."""
    for part in PARTS:
        files = {
            path.relative_to(site) for site in (first, other) for path in files_at(site / part)
        }
        if not files:
            yield f"{part}: nothing is there"
        for name in sorted(files):
            both = (first / name).is_file() and (other / name).is_file()
            if not (both and filecmp.cmp(first / name, other / name, shallow=False)):
                yield str(name)


def files_at(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    yield from (path for path in place.rglob("*") if path.is_file())


def main() -> int:
    folder = ROOT / "_build" / "twice"
    shutil.rmtree(folder, ignore_errors=True)
    differing = list(differences(built(folder / "one"), built(folder / "two")))
    for name in differing:
        print(f"differs: {name}", file=sys.stderr)
    if differing:
        print(
            "a figure of a cell with the tag 'timed' shows how long something took, and may differ",
            file=sys.stderr,
        )
        return 1
    print("the same: claims, downloads, explorer, figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
