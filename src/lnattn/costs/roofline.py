"""Measured time of a transformer layer against the roofline of the machine at hand.

How fast the machine multiplies large matrices, and reads and copies memory that is too large for
its caches (Williams et al. 2009), is measured too, with the threads that torch uses.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import torch

from lnattn.attention.forward import pre_ln_layer
from lnattn.costs.formulas import LayerSize, least_bytes, product_costs, roofline_seconds
from lnattn.costs.profiling import profile_layer, random_block, random_cache

_MIB = 1 << 20


@dataclass(frozen=True)
class Roof:
    """A machine in three numbers (float32), and the threads they were measured with.

    operations: per second, of large matrix products; read, copy: bytes per second when memory is
    only read, as weights are, or copied, reading and writing counted.
    """

    operations: float
    read: float
    copy: float
    threads: int

    @property
    def ridge(self) -> float:
        """Operations per byte read above which computing, not moving, sets the limit."""
        return self.operations / self.read


def measure_roof(seconds: float = 0.7, size: int = 1024, mib: int = 256) -> Roof:
    """Time square float32 products, sums and copies for `seconds` each; keep the fastest of each.

    size: side of the matrices; mib: MiB summed or copied at once, to be chosen larger than the
    last cache.
    """
    a, b, c = torch.rand(3, size, size)
    source = torch.ones(mib * _MIB // 4)
    target = torch.empty_like(source)
    product = min(_rounds(lambda: torch.mm(a, b, out=c), seconds))
    read = min(_rounds(source.sum, seconds)) / (mib * _MIB)
    copy = min(_rounds(lambda: target.copy_(source), seconds)) / (2 * mib * _MIB)
    return Roof(2 * size**3 / product, 1 / read, 1 / copy, torch.get_num_threads())


def measure_layers(
    roof: Roof, sizes: list[LayerSize], *, layers: int = 4, seconds: float = 0.4
) -> pd.DataFrame:
    """Seconds per layer of a stack of `layers` different layers, beside what the roof allows.

    A stack, because one layer's weights may fit into a cache. All sizes share d_model, heads and
    d_mlp. One row a size: queries, keys, operations, least_bytes, intensity (operations per byte),
    measured (median seconds), fastest, roofline (seconds from the larger of operations/peak and
    least bytes/bandwidth) and unfused (the same for every part as it is executed, added up).
    """
    first = sizes[0]
    blocks = [
        random_block(first.d_model, first.heads, first.d_mlp, seed=index) for index in range(layers)
    ]
    rows = []
    for size in sizes:
        x = torch.randn(size.queries, size.d_model, generator=torch.Generator().manual_seed(0))
        pasts = [random_cache(size) for _ in blocks]

        def run(x: torch.Tensor = x, pasts: list = pasts) -> None:
            for block, past in zip(blocks, pasts, strict=True):
                x, _ = pre_ln_layer(x, block, past)

        times = [t / layers for t in _rounds(run, seconds)]
        operations, moved = int(product_costs(size)["operations"].sum()), least_bytes(size)
        executed = profile_layer(blocks[0], x, pasts[0]).itertuples()
        parts = [(operations, moved), *((row.operations, row.bytes) for row in executed)]
        least, *unfused = (roofline_seconds(*part, roof.operations, roof.read) for part in parts)
        rows.append({
            "queries": size.queries, "keys": size.keys, "operations": operations,
            "least_bytes": moved, "intensity": operations / moved,
            "measured": statistics.median(times), "fastest": min(times),
            "roofline": least, "unfused": sum(unfused),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _rounds(work: Callable[[], object], seconds: float) -> list[float]:
    """Wall-clock seconds of 3 calls or more, for about `seconds` in all, after one not counted."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times
