"""What a build does before Sphinx reads the first page, and after it has written the last.

Under `jupyter-book build` as under `make book`, this Sphinx extension decides on the model, gives
the chapters an execution cache that belongs to the present source, data, lock and model (`inputs`),
and runs those that it does not hold, several at a time. So stale numbers cannot survive a change,
and a build runs what has changed and nothing else. One build at a time works in a folder; a second
one says so and ends.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

from booksite.doors import use_addresses
from booksite.inputs import execution_digest
from booksite.model import is_small, resolve_model
from booksite.settings import Folders, environment
from booksite.terminal import Following, end, say
from lnattn.errors import LnattnError
from lnattn.models.choice import Choice
from lnattn.storage import write_json

#: Caches kept: the present one and a few before it, so that going back to a model costs nothing.
KEPT_CACHES = 3
#: GiB that no process of a build may exceed: on a small model, on others.
SMALL_LIMIT, LARGE_LIMIT = 2.5, 3.5
#: What helps where a clone may only be read, or lies on a file system without locks.
ELSEWHERE = (
    "copy the clone to a folder of your own, or build elsewhere: jupyter-book build . "
    "--path-output FOLDER"
)
#: The attribute of Sphinx's application under which a build keeps its `Run`.
RUN = "lnattn_run"
#: Settings of Jupyter Book that name files from the book's root, not from that of a single page.
_PATHS = ("html_static_path", "bibtex_bibfiles")


@dataclass
class Run:
    """One build: its book, folders, model and cache, and what must be given back at its end.

    environment: what its chapters are told beside the user's own environment.
    limit: GiB that no process of it may exceed; None where no chapter had to run.
    """

    root: Path
    folders: Folders
    choice: Choice
    cache: Path
    environment: Mapping[str, str]
    lock: FileLock
    started: float
    progress: Following | None = None
    limit: float | None = None

    def finish(self) -> None:
        """Give back what others wait for; a second call does nothing."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
        self.lock.release()


def book_root(source: Path) -> Path:
    """The folder of the book: the nearest, at `source` or above it, that holds `_config.yml`."""
    for folder in (source, *source.parents):
        if (folder / "_config.yml").is_file():
            return folder
    return source


def locked(folders: Folders) -> FileLock:
    """The folder's lock, taken; ends the build where another one has it."""
    for sign in "%?":
        if sign in str(folders.build):  # jupyter-cache makes an address of it for its database
            end(f"the execution cache cannot lie in {folders.build}: its path has a {sign!r}; "
                "rename that folder, or move the clone.")  # fmt: skip
    lock = FileLock(folders.caches / ".lock")
    try:
        folders.caches.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        end(f"another run is at work in {folders.build}; wait until it has ended, and try again.")
    except NotImplementedError:
        end(f"{folders.build} lies where no file can be locked; {ELSEWHERE}.")
    except OSError as error:
        end(f"{folders.build} cannot be written or locked ({error.strerror}); {ELSEWHERE}.")
    return lock


def begun(root: Path, folders: Folders) -> Run:
    """Take the folder, choose the model and find its cache; ends the build where that fails."""
    started = time.monotonic()
    lock = locked(folders)
    try:
        choice = resolve_model()
    except LnattnError as error:
        end(str(error))
    digest = execution_digest(root, choice.name)
    prune(folders.caches, keep=digest)
    say(f"model {choice}, execution cache {digest}")
    told = environment(root, folders, choice)
    return Run(root, folders, choice, folders.cache(digest), told, lock, started)


def prepare(app: Sphinx, config: Config) -> None:
    """Sphinx's event `config-inited`: what the settings of `_config.yml` leave open."""
    if getattr(config, "nb_execution_mode", "off") != "cache":
        return
    root = book_root(Path(app.srcdir))
    run = begun(root, Folders.of(Path(app.outdir)))
    setattr(app, RUN, run)
    os.environ.update(run.environment)  # from here on the process is this build
    config.nb_execution_cache_path = str(run.cache)
    for name in filter(config.__contains__, _PATHS):
        config[name] = [str(root / path) for path in config[name]]
    if config.html_favicon:
        config.html_favicon = str(root / config.html_favicon)
    use_addresses(config, root)


def execute_missing(app: Sphinx, env: BuildEnvironment, pages: list[str]) -> None:
    """Sphinx's event `env-before-read-docs`: run the chapters among the pages to be read.

    Not by Sphinx itself, which would run one after another, and hold its memory beside theirs.
    """
    run: Run | None = getattr(app, RUN, None)
    chapters = [path for path in map(Path, map(env.doc2path, pages)) if is_chapter(path)]
    if run is None or not chapters:
        return
    from booksite.execute import mend, missing  # here: where no page is read, nothing of Jupyter is

    mend(run.cache)
    chapters = missing(chapters, run.cache)
    if not chapters:
        return
    small = is_small(run.choice)
    run.limit = SMALL_LIMIT if small else LARGE_LIMIT
    run.progress = Following(run.folders.progress)
    jobs = min(2, os.cpu_count() or 1) if small else 1
    command = [sys.executable, "-m", "booksite.execute", "--cache", run.cache, "--jobs", jobs]
    reports = Path(app.outdir) / "reports"
    done = subprocess.run([*map(str, [*command, "--reports", reports, *chapters])], check=False)
    run.progress.stop()
    run.progress = None
    if done.returncode:
        run.finish()
        seconds = time.monotonic() - run.started
        end(f"failed after {seconds:.0f} s; the first error is above", done.returncode)


def is_chapter(path: Path) -> bool:
    """Whether a page runs code: a notebook as Jupytext writes it in MyST Markdown, or in JSON."""
    if path.suffix == ".ipynb":
        return True
    with path.open(encoding="utf-8") as file:
        return file.readline().strip() == "---" and "kernelspec:" in file.read(2000)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`: say what it took."""
    run: Run | None = getattr(app, RUN, None)
    if run is None:
        return
    run.finish()
    if run.limit is not None:
        report_memory(run.folders.build / "memory.json", run.limit)
    seconds = time.monotonic() - run.started
    if error is None and app.builder.format == "html":
        say(f"built in {seconds:.0f} s: {Path(app.outdir) / 'index.html'}")


def report_memory(target: Path, limit: float) -> None:
    """Say how large the largest process was, this one or any below it, and write it to `target`.

    In GiB, of resident memory; a warning where it is more than `limit`.
    """
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of the unit that the system counts in
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    largest = max(resource.getrusage(which).ru_maxrss for which in processes) * unit / 2**30
    say(f"memory: the largest process of this build took {largest:.2f} GiB")
    if largest > limit:
        say(f"WARNING: no process is to take more than {limit} GiB of memory")
    write_json(target, {"limit": limit, "largest_gib": round(largest, 2)})


def prune(caches: Path, keep: str, count: int = KEPT_CACHES) -> list[str]:
    """Delete all but the newest `count` caches, `keep` among them; returns what was deleted.

    Another book's cache may lie in the same place, so only what is named by a digest is deleted.
    """
    caches.mkdir(parents=True, exist_ok=True)
    present = caches / keep
    present.mkdir(exist_ok=True)
    os.utime(present)
    by_age = sorted(
        (path for path in caches.iterdir() if _is_cache(path) and path.name != keep),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    outdated = by_age[count - 1 :]
    for path in outdated:
        shutil.rmtree(path)
    return [path.name for path in outdated]


def _is_cache(path: Path) -> bool:
    """Whether a folder is the execution cache of some state: `digest/cells`, and nothing else."""
    named = re.fullmatch("[0-9a-f]{16}", path.name) and path.is_dir() and not path.is_symlink()
    return bool(named) and {inner.name for inner in path.iterdir()} <= {"cells"}


def setup(app: Sphinx) -> None:
    app.connect("config-inited", prepare, priority=100)  # before others check paths
    app.connect("env-before-read-docs", execute_missing)
    app.connect("build-finished", finish, priority=900)
