"""Build the book twice from nothing and compare: `python -m booksite.twice` (`make twice`).

Two copies of the working tree, without any cache, are built one after the other on this machine.
The records of the claims, the figures, the data and the token explorer must be equal byte for byte;
what differs is listed. A build without records or without figures is no proof, and fails too.
(Pages are not compared: they carry the date, and how long each chapter took. Nor are figures of
cells with the tag `timed`, which show how long something took just then.)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lnattn.errors import LnattnError, ResultError
from lnattn.paths import repository
from lnattn.storage import sha256_of_file

#: Below `_build`: what must be the same in two builds, as patterns.
SAME = (
    "html/claims.json",
    "ledger/*.json",
    "html/_images/*",
    "html/_downloads/**/*",
    "html/_static/explorer/**/*",
)
#: Of these, what every build of the book has.
NEEDED = SAME[:3]


def copy_tree(root: Path, target: Path) -> None:
    """Copy what a clone would have, changes that are not committed included."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True,
        ).stdout.decode()  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise ResultError(f"{root} must be a clone of the repository ({error}).") from error
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():  # a file may be deleted and not yet committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def timed_figures(build: Path) -> set[str]:
    """File names of the figures that cells with the tag `timed` have drawn."""
    names = set()
    for page in build.glob("html/**/*.html"):
        _, *cells = page.read_text(encoding="utf-8").split('<div class="cell ')
        for cell in cells:
            if "tag_timed" in cell.partition('"')[0].split():
                names |= set(re.findall(r"_images/([\w.-]+)", cell))
    return names


def differences(one: Path, other: Path, patterns: Sequence[str] = SAME) -> Iterator[str]:
    """Names of the files that are not the same in two `_build` folders, and why."""
    timed = timed_figures(one) | timed_figures(other)
    for pattern in patterns:
        first, second = (
            {
                path.relative_to(place): path
                for path in place.glob(pattern)
                if path.is_file() and path.name not in timed
            }
            for place in (one, other)
        )
        for name in sorted(first.keys() | second.keys()):
            if name not in first or name not in second:
                yield f"{name} is only in the {'second' if name in second else 'first'} build"
            elif sha256_of_file(first[name]) != sha256_of_file(second[name]):
                yield f"{name} differs"


def lacking(build: Path) -> Iterator[str]:
    """What must be there to be compared, and is not."""
    for pattern in NEEDED:
        if not any(build.glob(pattern)):
            yield f"{build} has no {pattern}: nothing to compare"


def build_copy(root: Path, place: Path) -> Path:
    """Build a copy of the tree in `place`; returns its `_build` folder."""
    copy_tree(root, place)
    command = [sys.executable, "-m", "booksite.build", "--root", str(place)]
    # The copy's own package and data, not the ones that are installed.
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    status = subprocess.run(command, env=environment, check=False).returncode
    if status:
        raise ResultError(f"the copy in {place} did not build (exit status {status}).")
    return place / "_build"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build twice and compare; returns 0 where all is the same, else 1."""
    parser = argparse.ArgumentParser(prog="python -m booksite.twice", description=__doc__)
    parser.add_argument("--root", type=Path, help="the repository (default: found by itself)")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="BUILD",
        help="compare one new build with this _build folder",
    )
    options = parser.parse_args(arguments)
    try:
        root = options.root or repository()
        with tempfile.TemporaryDirectory(prefix="lnattn-twice-") as folder:
            one = options.against or build_copy(root, Path(folder) / "first")
            other = build_copy(root, Path(folder) / "second")
            said = [*lacking(one), *lacking(other), *differences(one, other)]
            count = sum(1 for pattern in SAME for path in other.glob(pattern) if path.is_file())
    except LnattnError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(said) or f"the same: {count} files of records, figures and data")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
