"""Sharing the cores between torch's threads and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
