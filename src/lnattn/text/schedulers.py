"""Running one function over many shards: here, in processes, or on a Dask cluster.

Each generator yields results as they come, in any order. A shard may be run more than once (when
the process that ran it was killed), so the function must be safe to repeat.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from lnattn.errors import CorpusError
from lnattn.text.shards import Shard

Work = Callable[[Any, Shard], dict[str, Any]]

#: Pools that may break in a row, without one more finished shard, before it is given up.
_BREAKDOWNS = 3


def in_this_process(work: Work, job: Any, shards: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    """One shard after the other."""
    for shard in shards:
        yield work(job, shard)


def in_processes(
    work: Work, job: Any, shards: Sequence[Shard], workers: int
) -> Iterator[dict[str, Any]]:
    """`workers` shards at a time. Shards of a worker that dies are run again in a new pool.

    Raises `CorpusError` when workers keep dying, and whatever `work` raises.
    """
    waiting = {shard.index: shard for shard in shards}
    breakdowns = 0
    while waiting:
        before = len(waiting)
        pool = ProcessPoolExecutor(
            min(workers, len(waiting)),
            # Forking a process that has threads (of a tokenizer, of PyTorch) can lock up.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_end_with_parent,
        )
        try:
            for future in as_completed([pool.submit(work, job, s) for s in waiting.values()]):
                result = future.result()
                del waiting[result["shard"]]
                yield result
        except BrokenProcessPool as error:
            breakdowns = breakdowns + 1 if len(waiting) == before else 1
            if breakdowns == _BREAKDOWNS:
                raise CorpusError(
                    f"the worker processes were killed {_BREAKDOWNS} times in a row, perhaps for "
                    "want of memory; use fewer workers."
                ) from error
        finally:
            pool.shutdown(cancel_futures=True)


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


def on_dask(
    work: Work, job: Any, shards: Sequence[Shard], address: str
) -> Iterator[dict[str, Any]]:
    """On the workers of a Dask scheduler, which also reruns the shards of workers that die.

    Raises `CorpusError` when Dask is not installed, the scheduler does not answer, or a shard has
    killed several workers.
    """
    try:
        import distributed
    except ImportError as error:
        raise CorpusError(
            "a scheduler needs Dask; install it with: pip install 'lnattn[dask]'"
        ) from error
    try:
        client = distributed.Client(address, timeout=20)
    except (OSError, ValueError) as error:
        raise CorpusError(f"no Dask scheduler answers at {address} ({error}).") from error
    with client:
        futures = [client.submit(work, job, shard, pure=False) for shard in shards]
        try:
            for future in distributed.as_completed(futures):
                yield future.result()
        except distributed.KilledWorker as error:
            raise CorpusError(f"a shard has killed several Dask workers ({error}).") from error
