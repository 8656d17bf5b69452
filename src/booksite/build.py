"""Build the book: `python -m booksite.build` (what `make book` calls).

Runs Jupyter Book with an execution cache that belongs to the present source, data, lock and
model, so that stale numbers cannot survive a change, and with warnings as errors. A chapter that
fails stops the build and shows its traceback. A build without changes takes a second.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import constants

from booksite.inputs import execution_digest, site_digest
from booksite.pages import listed_pages
from booksite.settings import Folders, addresses, environment, write_config
from booksite.terminal import progress_shown, say
from lnattn.errors import CheckpointError, LnattnError, ResultError
from lnattn.models import hub
from lnattn.models.checkpoints import BOOK_MODELS, open_checkpoint
from lnattn.models.choice import Choice, default_model, rotary_models
from lnattn.models.relative_families import RelativeFamily
from lnattn.storage import write_json
from lnattn_book.cache import forget_studies
from lnattn_book.places import repository

#: Caches kept: the present one and a few before it, so that going back to a model costs nothing.
KEPT_CACHES = 3
#: Numbers in the table of embeddings up to which two chapters' memory is no matter (GPT-2: 39e6).
SMALL = 12_000_000
#: GiB that no process of a build may exceed: on a small model, on others.
SMALL_LIMIT, LARGE_LIMIT = 2.5, 3.5
_EXECUTE = (sys.executable, "-m", "booksite.execute")


def build(root: Path, *, output: Path | None = None, force: bool = False) -> int:
    """Build the site in `_build/html`; returns the exit status (0: built, or up to date).

    output: where `_build` shall be, by default `root`; two books of one source, on two models, do
    not disturb one another if they have their own. force: run every chapter and every study again,
    though nothing changed. Raises `ResultError` where `root` is not the book's repository.
    """
    started = time.monotonic()
    if not (root / "_toc.yml").is_file():
        raise ResultError(f"{root} has no _toc.yml; run from a clone of the book's repository.")
    folders = Folders(output or root)
    choice = prepared()
    digest = execution_digest(root, choice.name)
    fingerprint = site_digest(root, digest, " ".join(addresses()))
    say(f"model {choice}, execution cache {digest}")
    if not force and folders.stamp.is_file() and folders.stamp.read_text() == fingerprint:
        say(f"nothing has changed; the book is at {folders.html / 'index.html'}")
        return 0
    cache = folders.caches / digest
    if force:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(folders.doctrees, ignore_errors=True)
        forget_studies()
    folders.stamp.unlink(missing_ok=True)
    prune(folders.caches, keep=digest)
    cache.mkdir(parents=True, exist_ok=True)
    config = write_config(root, folders, cache)
    say("executing what changed and building the pages")
    status, small = 0, is_small(choice)
    if wanted := chapters(root):
        # Not by Sphinx, which would hold its 0.8 GB beside the largest chapters' memory.
        options = ["--cache", cache / "cells", "--jobs", chapters_at_a_time(choice), *wanted]
        status = run([*_EXECUTE, *map(str, options)], root, folders, cache, choice)
    pages = jupyter_book(root, config, folders.output)
    status = status or run(pages, root, folders, cache, choice)
    tell_memory(folders.build / "memory.json", SMALL_LIMIT if small else LARGE_LIMIT)
    if status:
        # Pages that were read with a warning would pass in silence next time: read them again.
        shutil.rmtree(folders.doctrees, ignore_errors=True)
        say(f"failed after {time.monotonic() - started:.0f} s; the first error is above")
        return status
    folders.stamp.write_text(fingerprint)
    say(f"built in {time.monotonic() - started:.0f} s: {folders.html / 'index.html'}")
    return 0


def tell_memory(target: Path, limit: float) -> None:
    """Say how large the largest process was, this one or any below it, and write it to `target`.

    In GiB, of resident memory; a warning where it is more than `limit`.
    """
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of the unit that the system counts in
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    largest = max(resource.getrusage(one).ru_maxrss for one in who) * unit / 2**30
    say(f"memory: the largest process of this build took {largest:.2f} GiB")
    if largest > limit:
        say(f"WARNING: no process is to take more than {limit} GiB of memory")
    write_json(target, {"limit": limit, "largest_gib": round(largest, 2)})


def prepared() -> Choice:
    """The model of the chapters, fetched if it must be, and opened: they read local files only.

    With a model that is not embedded come the rotary models of chapter 13; who asks for an embedded
    one asks for no download. Raises `CheckpointError` where a model that the user named cannot be
    had, or has no six terms.
    """
    choice = default_model()
    if isinstance(open_checkpoint(choice.name).family, RelativeFamily):
        raise CheckpointError(
            f"the chapters split scores into six terms, and {choice.name} has rotary or relative "
            "positions, whose scores have four; take another MODEL, such as book-gpt2, and name "
            "yours in LNATTN_ROTARY: chapter 13 and the explorer show it then."
        )
    if choice.name not in BOOK_MODELS or "LNATTN_ROTARY" in os.environ:
        for name in rotary_models():
            _fetch_rotary(name)
    return choice


def _fetch_rotary(name: str) -> None:
    """Bring a rotary model for chapter 13, if the hub has it; the chapter does without others."""
    pin = hub.pin_of(name)
    if pin is None or not hub.missing_files(pin) or constants.HF_HUB_OFFLINE:
        return
    if not hub.reachable(pin):
        return
    try:
        hub.download(pin)
    except CheckpointError as error:
        say(f"chapter 13 does without {name}: {error}")


def execute_chapter(root: Path, name: str) -> int:
    """Run one chapter on the chosen model, whatever the cache holds; returns the exit status.

    name: its number, or its file's name without the ending. The executed notebook goes to
    `_build/executed/MODEL`, and into the cache, so that the next `make book` shows this run.
    """
    chapter = find_chapter(root, name)
    folders, choice = Folders(root), prepared()
    digest = execution_digest(root, choice.name)
    cache = folders.caches / digest
    prune(folders.caches, keep=digest)
    target = folders.build / "executed" / Path(choice.name).name / f"{chapter.stem}.ipynb"
    say(f"executing {chapter.relative_to(root)} on {choice}")
    options = ["--cache", cache / "cells", "--target", target]
    return run([*_EXECUTE, *map(str, [*options, chapter])], root, folders, cache, choice)


def chapters(root: Path) -> list[Path]:
    """All notebooks of the book, by name; a reader's own ones beside them are none of it."""
    pages = (root / name for name in listed_pages(root))
    return sorted(path for path in pages if path.parent.name == "notebooks")


def chapters_at_a_time(choice: Choice) -> int:
    """How many kernels: two on a small model, where there are two cores."""
    return min(2, os.cpu_count() or 1) if is_small(choice) else 1


def is_small(choice: Choice) -> bool:
    """Whether two chapters fit beside one another; one on GPT-2 takes 3 GB and both cores."""
    family = open_checkpoint(choice.name).family
    return family.config["vocab_size"] * family.d_model <= SMALL


def find_chapter(root: Path, name: str) -> Path:
    """The notebook with this number ('6', '06') or name; anything else is a `ResultError`.

    A reader's own notebook among the chapters can be named, too.
    """
    known = {path.stem: path for path in sorted((root / "notebooks").glob("*.md"))}
    wanted = f"{int(name):02d}-" if name.isdecimal() else None
    for stem, path in known.items():
        if stem == name or (wanted and stem.startswith(wanted)):
            return path
    raise ResultError(f"there is no chapter {name!r}; there are {', '.join(known) or 'none'}.")


def check_links(root: Path) -> int:
    """Follow every outgoing link of the book (needs a network); returns the exit status."""
    return build(root) or build_other(root, "linkcheck")


def build_other(root: Path, builder: str) -> int:
    """Build something else than the site from chapters that were executed; the exit status."""
    folders, choice = Folders(root), prepared()
    cache = folders.caches / execution_digest(root, choice.name)
    command = jupyter_book(root, folders.build / "_config.yml", folders.output, builder)
    return run(command, root, folders, cache, choice)


def run(command: list[str], root: Path, folders: Folders, cache: Path, choice: Choice) -> int:
    """Run a command in the chapters' environment, showing their progress; the exit status."""
    with progress_shown(folders.progress):
        return subprocess.run(
            command, env=environment(root, folders, cache, choice), check=False
        ).returncode


def jupyter_book(root: Path, config: Path, output: Path, builder: str = "html") -> list[str]:
    """The command that builds the pages: warnings are errors, unresolved references too."""
    entry = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    flags = ["--warningiserror", "--nitpick", "--keep-going", "--config", str(config)]
    flags += ["--path-output", str(output), "--builder", builder]
    return [sys.executable, "-c", entry, "build", *flags, str(root)]


def prune(caches: Path, keep: str, count: int = KEPT_CACHES) -> list[str]:
    """Delete all but the newest `count` caches, `keep` among them; returns what was deleted."""
    caches.mkdir(parents=True, exist_ok=True)
    present = caches / keep
    present.mkdir(exist_ok=True)
    os.utime(present)
    by_age = sorted(
        (path for path in caches.iterdir() if path.is_dir() and path.name != keep),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in by_age[count - 1 :]:
        shutil.rmtree(path)
    return [path.name for path in by_age[count - 1 :]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and build; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m booksite.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="run every chapter again")
    parser.add_argument("--chapter", metavar="06", help="run this chapter only, and no site")
    parser.add_argument("--links", action="store_true", help="then follow every outgoing link")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where _build shall be")
    parser.add_argument("--root", type=Path, help="the repository (default: found by itself)")
    options = parser.parse_args(arguments)
    try:
        root = (options.root or repository()).resolve()
        if options.chapter:
            return execute_chapter(root, options.chapter)
        if options.links:
            return check_links(root)
        output = options.output and options.output.resolve()
        return build(root, output=output, force=options.force)
    except LnattnError as error:
        print(f"[book] {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
