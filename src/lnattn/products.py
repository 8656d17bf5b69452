"""Large matrix products: which library makes them, and with how many threads.

The environment variable LNATTN_PRODUCTS says which library multiplies on the CPU in float32:
`numpy` (the default) or `torch`; on some processors one takes half the time of the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from threadpoolctl import ThreadpoolController
from torch import Tensor

from lnattn.errors import ResultError


def multiply(
    a: Float[Tensor, "row inner"],
    b: Float[Tensor, "inner column"],
    out: Float[Tensor, "row column"],
) -> Float[Tensor, "row column"]:
    """a b, written into `out`. Raises `ResultError` where LNATTN_PRODUCTS names no library."""
    library = os.environ.get("LNATTN_PRODUCTS", "").strip() or "numpy"
    if library not in ("numpy", "torch"):
        raise ResultError(f"LNATTN_PRODUCTS is {library!r}; set it to torch or numpy, or unset it.")
    if library == "numpy" and a.device.type == "cpu" and a.dtype == torch.float32:
        np.matmul(a.numpy(), b.numpy(), out=out.numpy())
        return out
    return torch.mm(a, b, out=out)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread for each product of NumPy inside: for small ones, or where we run threads."""
    with _pools().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def one_thread_a_call() -> Iterator[None]:
    """One thread for each product of NumPy and of torch inside, while we run the threads.

    A library's own threads keep a core busy for a while after each call.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: once is enough
