"""Counting a corpus of any size: shard by shard, with any executor, resumably.

`count_shard` reads one shard, tokenises it, counts it in memory and leaves one part, the shard's
own `Counts` file. A part is complete when its record is there, and a shard that is counted again
gives the same part. So an interrupted count goes on with the shards that have no part.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tokenizers import Tokenizer

from lnattn.errors import CorpusError, ResultError, one_line
from lnattn.progress import progress_bar, say
from lnattn.storage import (
    check_outputs,
    provenance,
    read_json,
    real_path,
    write_atomically,
    write_json,
)
from lnattn.text.corpora import Corpus, Shard, plan_shards
from lnattn.text.counts import Boundary, Counts
from lnattn.text.tokenizers import (
    encoded,
    plain_tokenizer,
    split_at_special_tokens,
    vocabulary_size,
)
from lnattn.text.vocabulary import vocabulary_sha256

#: The folder among the parts in which the texts of files are prepared.
_TABLES = "tables"
#: What a plan holds, by which a folder is known as a count's.
_PLANNED = ("inputs", "tokenizer", "boundary", "skip", "shards")
#: Pools that may break in a row, without one more finished shard, before it is given up.
_BREAKDOWNS = 3


@dataclass(frozen=True)
class CountJob:
    """What all shards of one count have in common: `folder` holds the parts and tokenizer.json."""

    folder: str
    tokenizer_sha256: str
    vocab_size: int
    boundary: Boundary
    skip: int = 1

    def part(self, shard: Shard) -> Path:
        """The file that holds the counts of one shard."""
        return Path(self.folder) / f"part-{shard.index:06d}.npz"


def count_corpus(  # noqa: PLR0913 (a command: its settings by name)
    sources: Corpus | Sequence[str | Path] | str | Path,
    tokenizer: Any,
    out: Path | str,
    *,
    boundary: Boundary | None = None,
    skip: int = 1,
    workers: int | Executor | None = None,
    shard_bytes: int | None = None,
    restart: bool = False,
    name: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Count a corpus into the .npz file `out`, for `Counts.load`; return the record beside it.

    sources: a `Corpus`, such as a data set of the hub, or files as for `read_documents`; tokenizer:
    a `tokenizers.Tokenizer`, or a fast tokenizer of `transformers` (no special tokens are added,
    nothing is truncated, and where a special token stands in a text, that is cut); boundary, skip:
    as in `Counts.from_documents`; workers: a number of processes (default: one for each core) or
    any executor whose workers see the same files, such as Dask's `client.get_executor()`; restart:
    discard what an interrupted count has left; name: what the record calls the tokenizer.

    Parts lie in the neighbour NAME.parts until the count is done, and the same call goes on with
    them. Raises `CorpusError` when they are of other inputs, when the inputs change while they are
    read, or when another process is writing the same counts.
    """
    begun = time.perf_counter()
    out = Path(out)
    if out.suffix != ".npz":
        raise CorpusError(f"the counts go to a .npz file, not to {out}; give another --out.")
    corpus = Corpus.of(sources)
    files = corpus.files()
    check_outputs([out, out.with_suffix(".json")], files)
    corpus = corpus.pinned()
    stamps = _stamps(files)
    inputs = corpus.described()
    _say_alike(inputs)
    text = plain_tokenizer(tokenizer)
    digest = hashlib.sha256(text.encode()).hexdigest()
    vocab = vocabulary_size(text)
    folder = real_path(out.with_suffix(".parts"))
    job = CountJob(
        folder=str(folder),
        tokenizer_sha256=digest,
        vocab_size=vocab,
        boundary=boundary or Boundary(),
        skip=skip,
    )
    Counts.from_documents([], vocab, boundary, skip)  # refuses what cannot be counted
    cut = {"bytes": shard_bytes, "streamed": corpus.is_streamed}
    with _locked(folder):
        _prepare(job, cut, inputs, text, restart)
        shards = plan_shards(corpus, folder / _TABLES, shard_bytes)
        finished = {shard.index: record for shard in shards if (record := _finished(job, shard))}
        waiting = [shard for shard in shards if shard.index not in finished]
        shown = {"unit": "shard", "delay": 0, "leave": True, "disable": not progress}
        place = {"initial": len(finished), "total": len(shards)}
        counted = progress_bar(_run(job, waiting, workers), "counting", **place, **shown)
        documents = sum(shard["documents"] for shard in [*finished.values(), *counted])
        if not documents or _stamps(files) != stamps:
            _remove_files(folder)  # what is no use must not stand in the way of the next count
            if documents:
                raise CorpusError("the corpus files changed while they were counted; count again.")
            raise CorpusError(f"the corpus {corpus.name} holds no text.")
        counts = _sum(Counts.load(job.part(shard)) for shard in shards)
        record = provenance(
            what="unigram and bigram counts" if skip == 1 else "unigram and skip-bigram counts",
            corpus=inputs,
            tokenizer={
                "name": name,
                "sha256": digest,
                "vocabulary_sha256": vocabulary_sha256(Tokenizer.from_str(text)),
                "vocab_size": vocab,
            },
            boundary=asdict(job.boundary),
            documents=documents,
            shards=len(shards),
            resumed_with=len(finished),
            seconds_of_last_session=round(time.perf_counter() - begun, 1),
            skip=skip,
            tokens=counts.tokens,
            pairs=counts.pairs,
            distinct_pairs=counts.bigrams.nnz,
        )
        Counts(counts.unigrams, counts.bigrams, record).save(out)
        _remove_files(folder)
    return read_json(out.with_suffix(".json"))


def _say_alike(inputs: Sequence[Mapping[str, Any]]) -> None:
    """A line for files of the same contents, which count as often as they are there."""
    by_contents: dict[str, list[str]] = {}
    for file in inputs:
        by_contents.setdefault(file.get("sha256", ""), []).append(str(file.get("file")))
    for digest, names in by_contents.items():
        if digest and len(names) > 1:
            say(f"WARNING: {' and '.join(names)} hold the same, and are all counted.")


def count_shard(job: CountJob, shard: Shard) -> dict[str, Any]:
    """Count one shard: write its part with its record, and return the record.

    Runs in any process that sees `job.folder` and the shard's source.
    """
    # The cores are used by counting several shards at a time, not by threads inside one.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = _tokenizer(job.folder, job.tokenizer_sha256)
    documents = split_at_special_tokens(tokenizer, shard.documents())
    ids = encoded(tokenizer, documents)
    counts = Counts.from_documents(ids, job.vocab_size, job.boundary, job.skip)
    numbers = {"shard": shard.index, "tokens": counts.tokens, "pairs": counts.pairs}
    record = {**counts.record, **numbers}
    Counts(counts.unigrams, counts.bigrams, record).save(job.part(shard))
    return record


def _run(
    job: CountJob, shards: list[Shard], workers: int | Executor | None, work: Any = None
) -> Iterator[dict[str, Any]]:
    """The records of the shards, in any order, as they are counted."""
    work = work or count_shard
    if isinstance(workers, Executor):
        yield from _submitted(workers, work, job, shards)
        return
    workers = workers or os.cpu_count() or 1
    if workers == 1 or multiprocessing.current_process().daemon:  # such a one may have no children
        yield from (work(job, shard) for shard in shards)
        return
    waiting = {shard.index: shard for shard in shards}
    breakdowns = 0
    while waiting:
        before = len(waiting)
        # Forking a process that has threads (of a tokenizer, of PyTorch) can lock up.
        spawn = multiprocessing.get_context("spawn")
        try:
            pool = ProcessPoolExecutor(min(workers, before), spawn, initializer=_end_with_parent)
        except OSError as error:  # no shared memory, which processes tell one another by
            say(f"counted in one process: none can be started beside it ({one_line(error)}).")
            yield from (work(job, shard) for shard in waiting.values())
            return
        try:
            for record in _submitted(pool, work, job, list(waiting.values())):
                del waiting[record["shard"]]
                yield record
        except BrokenExecutor as error:
            # A worker was killed; the shards that are left are counted in a new pool.
            breakdowns = breakdowns + 1 if len(waiting) == before else 1
            if breakdowns == _BREAKDOWNS:
                raise CorpusError(
                    f"the worker processes were killed {_BREAKDOWNS} times in a row, perhaps for "
                    "want of memory; use fewer workers."
                ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _submitted(
    executor: Executor, work: Any, job: CountJob, shards: list[Shard]
) -> Iterator[dict[str, Any]]:
    with _main_module_hidden():
        futures = [executor.submit(work, job, shard) for shard in shards]
    try:
        yield from (future.result() for future in as_completed(futures))
    finally:
        for future in futures:
            future.cancel()


@contextlib.contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep processes that are spawned inside from running the caller's script again.

    They need nothing of it, since what they do stands in this module. So a script needs no
    `if __name__ == "__main__"` guard, and may as well come from the standard input.
    """
    main = sys.modules["__main__"]
    absent = object()
    before = {name: getattr(main, name, absent) for name in ("__file__", "__spec__")}
    try:
        main.__spec__ = None
        if before["__file__"] is not absent:
            del main.__file__
        yield
    finally:
        for name, value in before.items():
            if value is not absent:
                setattr(main, name, value)


def _end_with_parent() -> None:
    """Let a worker die with its parent, also when that is killed and cannot tell it to stop."""
    # Control-C reaches the workers too; the parent alone reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _sum(parts: Iterator[Counts]) -> Counts:
    """All counts together. Like sizes are added, so that a pair is copied log2(parts) times."""
    sums: list[Counts] = []
    for part in parts:
        while sums and sums[-1].bigrams.nnz < 2 * part.bigrams.nnz:
            part = sums.pop() + part
        sums.append(part)
    while len(sums) > 1:
        sums.append(sums.pop() + sums.pop())
    return sums[0]


@lru_cache(maxsize=4)
def _tokenizer(folder: str, sha256: str) -> Tokenizer:
    """The job's tokenizer, read once in each process; the checksum makes the cache safe."""
    text = (Path(folder) / "tokenizer.json").read_text(encoding="utf-8")
    if hashlib.sha256(text.encode()).hexdigest() != sha256:
        raise CorpusError(f"{folder}/tokenizer.json is not the one this count began with.")
    return Tokenizer.from_str(text)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder of the parts, new or of an interrupted count, for this process alone.

    Only files that a count makes are deleted, by name, and then the folder if it is empty.
    """
    if folder.exists() and not _is_of_a_count(folder):
        raise CorpusError(f"{folder} is there and is of no count; give another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise CorpusError(f"another count is writing {folder}; wait until it is done.") from error
    except (OSError, NotImplementedError) as error:  # a file system without locks
        say(f"{folder} cannot be locked ({one_line(error)}); let no other count write it.")
    try:
        yield
    finally:
        if not any(folder.glob("part-*.json")):  # done, or stopped before its first part
            _remove_files(folder)
            (folder / "lock").unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there are files that no count made
                folder.rmdir()
        lock.release()


def _is_of_a_count(folder: Path) -> bool:
    """Whether a folder is a count's, by its plan; or is empty, but for the file of a lock."""
    if not folder.is_dir():
        return False
    if os.path.lexists(folder / "plan.json"):
        with contextlib.suppress(ResultError):
            return set(_PLANNED) <= set(read_json(folder / "plan.json"))
        return False
    return all(path.name == "lock" and path.stat().st_size == 0 for path in folder.iterdir())


def _prepare(
    job: CountJob, cut: dict[str, Any], inputs: list[dict[str, Any]], tokenizer: str, restart: bool
) -> None:
    """Write the plan; `CorpusError` where the folder holds parts that were made by another one."""
    plan = {
        "inputs": inputs,
        "tokenizer": job.tokenizer_sha256,
        "boundary": asdict(job.boundary),
        "skip": job.skip,
        "shards": cut,
    }
    folder = Path(job.folder)
    if restart:
        _remove_files(folder)
    before = read_json(folder / "plan.json") if any(folder.glob("part-*.json")) else plan
    if changed := [key for key, value in plan.items() if before.get(key) != value]:
        raise CorpusError(
            f"{folder} holds an interrupted count with other {' and '.join(changed)}; give the "
            "same arguments to go on with it, or --restart to discard it."
        )
    write_json(folder / "plan.json", plan)
    write_atomically(folder / "tokenizer.json", lambda file: file.write(tokenizer.encode()))


def _remove_files(folder: Path) -> None:
    """Delete what a count has written: its parts first, and last the plan that says it is ours."""
    for name in ("part-??????.npz", "part-??????.json", "tokenizer.json", "plan.json"):
        for path in [*folder.glob(f".{name}.*"), *folder.glob(name)]:  # also what was cut short
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / _TABLES, ignore_errors=True)


def _finished(job: CountJob, shard: Shard) -> dict[str, Any] | None:
    """The record of a shard's part, if that is complete and unharmed."""
    with contextlib.suppress(ResultError):
        return dict(Counts.load(job.part(shard)).record) or None
    return None


def _stamps(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Sizes and modification times."""
    return [(stat.st_size, stat.st_mtime_ns) for stat in map(Path.stat, files)]
