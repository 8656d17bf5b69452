"""Sharing the cores between torch's threads and those of the experiments' kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import no_type_check

import torch
from numba import types
from numba.extending import intrinsic


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread for each call while we run the threads ourselves.

    To be entered before the first operation: torch's own threads keep a core busy for a while
    after each.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_parts(work: Callable[[int, slice], object], n: int, parts: int | None = None) -> None:
    """Call work(part, its slice of n things) for all parts at once: as many as torch has threads.

    For functions that let go of Python's lock. The calling thread does the first part itself:
    waking another costs a tenth of a millisecond.
    """
    parts = parts or part_count(n)
    slices = [slice(i * n // parts, (i + 1) * n // parts) for i in range(parts)]
    others = [_workers().submit(work, i, slices[i]) for i in range(1, parts)]
    work(0, slices[0])
    for other in others:
        other.result()


def part_count(n: int) -> int:
    """Into how many parts `in_parts` divides n things."""
    return max(1, min(n, torch.get_num_threads()))


@intrinsic
@no_type_check
def next_of(_, counter):
    """What the counter (int64 [1]) stands at, and count it up, in compiled code: each number once.

    Of threads that take numbers at the same time none gets another's, so that who is slower, or
    comes later, does less.
    """

    def take(context, builder, signature, arguments):
        (array,) = signature.args
        place = context.make_array(array)(context, builder, arguments[0]).data
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", place, one, "monotonic")

    return types.int64(counter), take


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()  # starts as many threads as are needed at once
