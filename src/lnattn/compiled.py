"""Loops compiled by numba, and threads of our own to share their work.

numba's parallel loops take their threads from one pool of the process. A forked child inherits that
pool broken and waits for ever, and under numba's `workqueue` layer two threads that enter it at
once abort the process. So every loop here is a plain one that releases the interpreter's lock, and
`in_threads` starts threads that live as long as one call: under fork, spawn, threads and every
threading layer alike.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numba as nb

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F | None = None, **options: Any) -> Any:
    """`numba.njit` that releases the interpreter's lock and keeps the machine code on disk.

    options: numba's own, such as `fastmath`. Where neither the package's folder nor the user's
    cache can be written, the function is compiled anew in each process.
    """
    if function is None:
        return lambda decorated: compiled(decorated, **options)
    try:
        return nb.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba finds no place for its cache
        return nb.njit(nogil=True, **options)(function)


def thread_count(jobs: int) -> int:
    """Threads for so many jobs: at most one a job, and NUMBA_NUM_THREADS (default: all cores).

    >>> thread_count(1)
    1
    """
    return max(1, min(nb.config.NUMBA_NUM_THREADS, jobs))


def in_threads(work: Callable[[int], object], threads: int) -> None:
    """Call work(0), …, work(threads − 1) side by side; an error in one of them is raised here."""
    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = pool.map(work, range(1, threads))
        work(0)
        list(others)
