"""Scores of all query tokens against all keys, made and looked at a block at a time.

A block is made by one thread and looked at by the same thread, while it is in its cache. The
library's own threads would go on spinning after each product, on the core of one who looks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.numerics.products import multiply, product_device
from lnattn.numerics.threads import one_thread_a_call

#: Bytes of a block of whole rows: fits into a last-level cache, and is tall enough for the product.
BLOCK_BYTES = 12 << 20
#: Rows and columns of a tile that stays in a core's own cache, for those who need no whole rows.
TILE = (512, 384)


def look_at_scores(
    look: Callable[[int, int, np.ndarray], object],
    queries: Float[Tensor, "row width"],
    keys: Float[Tensor, "vocab width"],
    device: str | torch.device | None = None,
    *,
    tiles: bool = False,
) -> None:
    """Call look(first row, first column, scores) for blocks that make up queries keysᵀ.

    Of whole rows, or with `tiles` of `TILE`; those of one row come from left to right, one after
    the other, while other threads have other rows. Scores are written over once `look` returns.
    device: where the products are made (default: `product_device`); a GPU makes whole rows, which
    come back to the CPU.
    """
    there = product_device(device)
    queries, keys = queries.to(there), keys.to(there).T
    vocab = keys.shape[1]
    if tiles and there.type == "cpu":
        rows, columns = TILE
    else:
        rows, columns = BLOCK_BYTES // (keys.element_size() * vocab), vocab
        keys = keys.contiguous()  # read anew for every block of few rows
    rows = max(1, min(rows, len(queries)))
    workers = torch.get_num_threads()
    rooms: SimpleQueue[Tensor] = SimpleQueue()
    for _ in range(workers):
        rooms.put(keys.new_empty(rows * min(columns, vocab)))

    def one_block(begin: int) -> None:
        some, room = queries[begin : begin + rows], rooms.get()
        try:
            for first in range(0, vocab, columns):
                part = keys[:, first : first + columns]
                scores = room[: len(some) * part.shape[1]].view(len(some), part.shape[1])
                look(begin, first, multiply(some, part, out=scores).cpu().numpy())
        finally:
            rooms.put(room)

    with one_thread_a_call(), ThreadPoolExecutor(workers) as pool:
        list(pool.map(one_block, range(0, len(queries), rows)))
