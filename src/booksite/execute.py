"""Run chapters and keep what came out: `python -m booksite.execute` (see `execution`).

Jupytext reads the notebooks, into the same cells as MyST-NB does; the same code runs them, and they
go into the build's cache under the same key. So the build shows this run and does not repeat it.

Chapters are independent of one another, and a kernel alone seldom keeps two cores busy, so several
run at a time, each on its share of the cores: where two use both with all their libraries' threads,
these wait for one another, and the whole takes twice as long. Each goes into the cache as soon as
it is done: a run that is cut loses those that were under way. A chapter that measures times (a cell
has the tag `timed`) has the machine to itself, after the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import jupytext
import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.cache.db import NbCacheRecord
from jupyter_cache.executors.utils import single_nb_execution
from sqlalchemy.exc import SQLAlchemyError

from booksite.terminal import say
from lnattn.errors import one_line
from lnattn.storage import write_atomically
from lnattn_book.claims.ledger import RECORD_PREFIX, as_record

#: Seconds that a chapter may take: as in `_config.yml`.
TIMEOUT = 3600
#: How the libraries are told before they start how many threads to use.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
#: A fork starts at once; outside of Linux systems' own libraries do not bear one.
_CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
Item = TypeVar("Item")
Result = TypeVar("Result")


def read(chapter: Path) -> Any:
    """A MyST notebook as MyST-NB reads it."""
    return jupytext.read(chapter, fmt="md:myst")


def execute(chapter: Path) -> tuple[Any, float, str]:
    """The notebook with its outputs, the seconds it took, and '' or the traceback of its error."""
    result = single_nb_execution(
        read(chapter),
        cwd=str(chapter.parent),
        timeout=TIMEOUT,
        allow_errors=False,
        shutdown_kernel="immediate",  # a graceful end takes PyTorch more than a second
    )
    return result.nb, result.time, result.exc_string or ""


def keep(notebook: Any, seconds: float, chapter: Path, cache_folder: Path) -> None:
    """Put an executed notebook where the build looks for it."""
    get_cache(str(cache_folder)).cache_notebook_bundle(
        CacheBundleIn(notebook, str(chapter), data={"execution_seconds": seconds}),
        check_validity=False,
        overwrite=True,
    )


def run(chapter: Path, cache_folder: Path, target: Path) -> int:
    """Execute a chapter whatever the cache holds, write it with its outputs; the exit status."""
    mend(cache_folder)
    notebook, seconds, error = execute(chapter)
    written = nbformat.writes(notebook).encode()
    write_atomically(target, lambda file: file.write(written))
    say(f"{seconds:.0f} s; with its outputs: {target}")
    if error:
        print(error, file=sys.stderr)
        return 1
    for line in verdicts(notebook):
        say(line)
    keep(notebook, seconds, chapter, cache_folder)
    return 0


def run_missing(
    chapters: Sequence[Path], cache_folder: Path, jobs: int, reports: Path | None = None
) -> int:
    """Execute `jobs` at a time of the chapters that the cache does not hold; the exit status.

    The first chapter that fails ends the run, with its traceback, which also goes to a file in
    `reports`.
    """
    wanted = missing(chapters, cache_folder)
    timed = [path for path in wanted if _timed(path)]
    others = [path for path in wanted if path not in timed]
    counter = _Counter(len(wanted))
    with cores_shared(jobs):
        failed = _run_all(others, cache_folder, jobs, counter)
    failed = failed or _run_all(timed, cache_folder, 1, counter)
    if failed is None:
        return 0
    chapter, error = failed
    print(error, file=sys.stderr)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        (reports / f"{chapter.stem}.err.log").write_text(error, encoding="utf-8")
    return 1


def mend(cache_folder: Path) -> None:
    """Take out of the cache what cannot be read, with a line; it is computed anew."""
    if not cache_folder.is_dir():
        return
    try:
        cache = get_cache(str(cache_folder))
        records = cache.list_cache_records()
    except (SQLAlchemyError, OSError, ValueError) as error:
        say(f"the execution cache is damaged ({one_line(error, 100)}), and is made anew")
        shutil.rmtree(cache_folder)
        return
    for record in records:
        try:
            cache.get_cache_bundle(record.pk)
        except (SQLAlchemyError, OSError, ValueError, KeyError, AttributeError) as error:
            name = Path(record.uri).stem
            say(f"{name} is damaged in the execution cache ({one_line(error, 100)}), and runs anew")
            with suppress(KeyError, OSError):  # where the file is gone, only the record is left
                cache.remove_cache(record.pk)
            with suppress(KeyError, OSError, SQLAlchemyError):  # removed with its files, mostly
                NbCacheRecord.remove_record(record.pk, cache.db)
            shutil.rmtree(cache_folder / "executed" / record.hashkey, ignore_errors=True)


def missing(chapters: Sequence[Path], cache_folder: Path) -> list[Path]:
    """Those of the chapters that the cache does not hold."""
    return [path for path in chapters if not _cached(path, cache_folder)]


@dataclass
class _Counter:
    """How many of the chapters are done."""

    total: int
    done: int = 0

    def tell(self, chapter: Path, seconds: float) -> None:
        self.done += 1
        say(f"{self.done} of {self.total}: {chapter.stem}, {seconds:.0f} s")


def _run_all(
    chapters: Sequence[Path], cache_folder: Path, jobs: int, counter: _Counter
) -> tuple[Path, str] | None:
    """Execute and keep chapters; the first one that fails, with its traceback."""
    with closing(in_processes(execute, chapters, jobs)) as ended:
        for chapter, result in ended:
            if result is None:
                return chapter, f"{chapter}: the process that ran it ended before it did."
            notebook, seconds, error = result
            counter.tell(chapter, seconds)
            if error:
                return chapter, error
            keep(notebook, seconds, chapter, cache_folder)
    return None


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Result | None], None, None]:
    """Each item with what `work` gives for it, from a process of its own, as they end.

    jobs: so many at a time. None stands for the result of a process that ended without one. Where
    the caller takes no more, no other item is begun, and those under way are waited for.
    """
    waiting = list(reversed(items))
    running: dict[Connection, tuple[Item, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                item = waiting.pop()
                receiver, sender = _CONTEXT.Pipe(duplex=False)
                # A fork has the ends to read from, too: unless it closes them, it would wait for
                # ever for somebody to read what it sends, where this process has been killed.
                inherited = [receiver, *running] if _CONTEXT.get_start_method() == "fork" else []
                process = _CONTEXT.Process(target=_send, args=(sender, inherited, work, item))
                process.start()
                sender.close()  # the process has its own: when that is closed, so is the pipe
                running[receiver] = item, process
            ended: Any = wait(list(running))
            for receiver in ended:
                item, process = running[receiver]
                result = _received(receiver)
                process.join()
                del running[receiver]
                yield item, result
    finally:
        for receiver, (_, process) in running.items():
            _received(receiver)  # unread, it could not end
            process.join()


def _send(
    sender: Connection, inherited: list[Connection], work: Callable[[Item], Result], item: Item
) -> None:
    for receiver in inherited:
        receiver.close()
    sender.send(work(item))


def _received(receiver: Connection) -> Any:
    with receiver:
        try:
            return receiver.recv()
        except EOFError:
            return None


@contextmanager
def cores_shared(jobs: int) -> Iterator[None]:
    """Inside, each of so many kernels has its part of the cores; what the user has set stays."""
    each = max(1, (os.cpu_count() or 1) // jobs)
    chosen = {name: str(each) for name in THREADS if name not in os.environ}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]


def _timed(chapter: Path) -> bool:
    return any("timed" in cell.metadata.get("tags", ()) for cell in read(chapter).cells)


def _cached(chapter: Path, cache_folder: Path) -> bool:
    try:
        get_cache(str(cache_folder)).match_cache_notebook(read(chapter))
    except KeyError:
        return False
    return True


def verdicts(notebook: Any) -> Iterator[str]:
    """One line for each claim that the notebook registered."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name", "")
            if name.startswith(RECORD_PREFIX):
                (text,) = output["data"].values()
                record = as_record(json.loads("".join(text)), name)
                yield f"{record.mark} {record}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run chapters as the options say; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m booksite.execute", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--target", type=Path, metavar="FILE", help="write the one chapter there")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="where tracebacks go")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time")
    parser.add_argument("chapters", type=Path, nargs="+", metavar="CHAPTER")
    options = parser.parse_args(arguments)
    if options.target:
        (chapter,) = options.chapters
        return run(chapter, options.cache, options.target)
    return run_missing(options.chapters, options.cache, options.jobs, options.reports)


if __name__ == "__main__":
    sys.exit(main())
