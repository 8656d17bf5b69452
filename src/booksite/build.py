"""Build the book: `python -m booksite.build`, or run one chapter of it (`--chapter 4`).

The build is `jupyter-book build .` in a process of its own: what the book needs is a Sphinx
extension (`booksite`). Here are the few things that Jupyter Book has no option for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from booksite.execution import ELSEWHERE, Run, begun
from booksite.settings import BUILD, Folders
from booksite.terminal import Following, say
from lnattn.errors import LnattnError, ResultError
from lnattn_book.page.places import repository
from lnattn_book.studies.cache import forget_studies

_EXECUTE = (sys.executable, "-m", "booksite.execute")
#: What Jupyter Book is asked for where a warning shall fail the build.
STRICT = ("--warningiserror", "--nitpick", "--keep-going")


def build(root: Path, *options: str, output: Path | None = None) -> int:
    """Run `jupyter-book build` with these options; returns the exit status (0: built).

    output: where `_build` shall be, by default `root`; two books of one source, on two models, do
    not disturb one another if they have their own. Raises `ResultError` where `root` is not the
    book's repository, or `_build` cannot be made.
    """
    if not (root / "_toc.yml").is_file():
        raise ResultError(f"{root} has no _toc.yml; run from a clone of the book's repository.")
    place = (output or root) / BUILD
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{place} cannot be written ({error.strerror}); {ELSEWHERE}."
        raise ResultError(problem) from error
    entry = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    where = ["--path-output", str(output)] if output else []
    command = [sys.executable, "-c", entry, "build", *options, *where, str(root)]
    return subprocess.run(command, check=False).returncode


def forget(root: Path) -> None:
    """Delete the execution cache of the present state and the kept studies: all runs again."""
    run = begun(root, Folders(root / BUILD))
    shutil.rmtree(run.cache, ignore_errors=True)
    forget_studies()
    run.finish()


def execute_chapter(root: Path, name: str) -> int:
    """Run one chapter on the chosen model, whatever the cache holds; returns the exit status.

    name: its number, or its file's name without the ending. The executed notebook goes to
    `_build/executed/MODEL`, and into the cache, so that the next build shows this run.
    """
    chapter = find_chapter(root, name)
    run = begun(root, Folders(root / BUILD))
    try:
        return _execute(run, chapter)
    finally:
        run.finish()


def _execute(run: Run, chapter: Path) -> int:
    folder = run.folders.build / "executed" / Path(run.choice.name).name
    target = folder / f"{chapter.stem}.ipynb"
    say(f"executing {chapter.relative_to(run.root)} on {run.choice}")
    command = [*_EXECUTE, "--cache", str(run.cache), "--target", str(target), str(chapter)]
    with Following(run.folders.progress):
        told = {**os.environ, **run.environment}
        return subprocess.run(command, env=told, check=False).returncode


def find_chapter(root: Path, name: str) -> Path:
    """The notebook with this number ('6', '06'), name or path; anything else is a `ResultError`.

    A reader's own notebook among the chapters can be named, too.
    """
    if name.endswith(".md"):
        name = Path(name).stem
    known = {path.stem: path for path in sorted((root / "notebooks").glob("*.md"))}
    wanted = f"{int(name):02d}-" if name.isdecimal() else None
    for stem, path in known.items():
        if stem == name or (wanted and stem.startswith(wanted)):
            return path
    raise ResultError(f"there is no chapter {name!r}; there are {', '.join(known) or 'none'}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and build; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m booksite.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="run every chapter again")
    parser.add_argument("--strict", action="store_true", help="fail where there is a warning")
    parser.add_argument("--chapter", metavar="06", help="run this chapter only, and no site")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where _build shall be")
    parser.add_argument("--root", type=Path, help="the repository (default: found by itself)")
    options = parser.parse_args(arguments)
    try:
        root = (options.root or repository()).resolve()
        if options.chapter is not None:
            return execute_chapter(root, options.chapter)
        if options.force:
            forget(root)
        flags = [*(STRICT if options.strict else ()), *(["--all"] if options.force else ())]
        output = options.output and options.output.resolve()
        return build(root, *flags, output=output)
    except LnattnError as error:
        print(f"[book] {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
