"""Large float32 matrix products by whichever library is fastest on this machine.

torch and NumPy bring a linear algebra library each (MKL or oneDNN, and OpenBLAS). Which is faster
depends on the processor: either can be two to three times the other. So the shapes that the
studies use are timed once, in milliseconds and on one core, and the choice is kept in the package's
cache folder until the processor or a version changes. LNATTN_PRODUCTS=torch or =numpy decides it
instead. The choice moves results by rounding, and by nothing else.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.errors import ResultError
from lnattn.numerics.threads import one_thread_a_call
from lnattn.paths import cache_folder
from lnattn.storage import package_versions, read_json, write_json

Library = Literal["torch", "numpy"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
#: Queries times keys of GPT-2's heads, cut short: rows, inner width, columns.
SHAPE = (512, 64, 8192)
_ROUNDS = 5
_LOCK = Lock()


@dataclass(frozen=True)
class Chosen:
    """Which library multiplies, and why; gflops: by library, empty where nothing was timed."""

    library: Library
    why: str
    gflops: dict[str, float]


def multiply(
    a: Float[Tensor, "row inner"],
    b: Float[Tensor, "inner column"],
    out: Float[Tensor, "row column"],
) -> Float[Tensor, "row column"]:
    """a b, written into `out`, which is returned. On the CPU in float32 by the chosen library."""
    here = a.device.type == "cpu" and a.dtype == b.dtype == out.dtype == torch.float32
    if here and chosen().library == "numpy":
        np.matmul(a.numpy(), b.numpy(), out=out.numpy())
        return out
    return torch.mm(a, b, out=out)


def product_device(device: str | torch.device | None = None) -> torch.device:
    """Where to make large matrix products: as asked, else a GPU if torch finds one, else here."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def chosen() -> Chosen:
    """What this machine multiplies with: as told, as kept, or as measured here and now.

    Raises `ResultError` where LNATTN_PRODUCTS names another library.
    """
    told = os.environ.get("LNATTN_PRODUCTS", "").strip()
    if not told:
        with _LOCK:  # workers of one study ask at once
            return _kept()
    if told not in LIBRARIES:
        raise ResultError(f"LNATTN_PRODUCTS is {told!r}; set it to torch or numpy, or unset it.")
    return Chosen(told, "told by LNATTN_PRODUCTS", {})


def measure(shape: tuple[int, int, int] = SHAPE) -> dict[str, float]:
    """Giga-operations a second and core of each library, the best of some rounds."""
    rows, inner, columns = shape
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(rows, inner, generator=generator)
    keys = torch.rand(columns, inner, generator=generator)
    out = torch.empty(rows, columns)
    ways: dict[Library, Callable[[], object]] = {
        "torch": lambda: torch.mm(a, keys.T, out=out),
        "numpy": lambda: np.matmul(a.numpy(), keys.numpy().T, out=out.numpy()),
    }
    best = dict.fromkeys(ways, float("inf"))
    with one_thread_a_call():
        for _ in range(_ROUNDS):  # in turn, so that a busy moment meets both
            for name, way in ways.items():
                begun = time.perf_counter()
                way()
                best[name] = min(best[name], time.perf_counter() - begun)
    return {name: 2 * rows * inner * columns / seconds / 1e9 for name, seconds in best.items()}


def choose_anew() -> Chosen:
    """Measure now, and keep the choice for this and later processes."""
    gflops = measure()
    library = max(LIBRARIES, key=lambda name: gflops[name])
    made = Chosen(library, "the faster of the two when it was measured", gflops)
    # A cache that cannot be written costs the next process some milliseconds, and nothing else.
    with contextlib.suppress(OSError):
        write_json(_file(), {"machine": _machine(), **asdict(made)})
    _kept.cache_clear()
    return made


def _file() -> Path:
    return cache_folder() / "products.json"


@cache  # a product of a small block takes no longer than finding the file
def _kept() -> Chosen:
    """The choice that was kept if it is this machine's, else one made now; asked once a process."""
    with contextlib.suppress(ResultError, KeyError, TypeError):
        record = read_json(_file())
        if record["machine"] == _machine() and record["library"] in LIBRARIES:
            return Chosen(record["library"], record["why"], record["gflops"])
    return choose_anew()


def _machine() -> dict[str, str]:
    """What the choice depends on."""
    coretype = os.environ.get("OPENBLAS_CORETYPE", "")
    return {
        "processor": processor(),
        "coretype": coretype,
        **package_versions("torch", "numpy"),
    }


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
