"""Scores of all query tokens against all keys, made and visited a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.products import multiply, one_thread_a_call

#: Bytes of a block: fits into a last-level cache, and is tall enough for a fast product.
BLOCK_BYTES = 12 << 20


def for_each_score_block(
    visit: Callable[[int, np.ndarray], object],
    queries: Float[Tensor, "row width"],
    keys: Float[Tensor, "vocab width"],
) -> None:
    """Call visit(first row, scores) for blocks [some vocab] that make up queries keysᵀ.

    As many threads as torch has take a block each, which is written over once `visit` returns.
    Products are made on a GPU if torch finds one; scores come back to the CPU.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    queries = queries.to(device)
    keys = keys.to(device).T.contiguous()
    vocab = keys.shape[1]
    rows = max(1, min(BLOCK_BYTES // (keys.element_size() * vocab), len(queries)))
    workers = torch.get_num_threads()
    buffers: SimpleQueue[Tensor] = SimpleQueue()
    for _ in range(workers):
        buffers.put(keys.new_empty(rows, vocab))

    def one_block(begin: int) -> None:
        rows_of_queries = queries[begin : begin + rows]
        buffer = buffers.get()
        try:
            scores = multiply(rows_of_queries, keys, out=buffer[: len(rows_of_queries)])
            visit(begin, scores.cpu().numpy())
        finally:
            buffers.put(buffer)

    with one_thread_a_call(), ThreadPoolExecutor(workers) as pool:
        list(pool.map(one_block, range(0, len(queries), rows)))
