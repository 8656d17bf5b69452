"""What every benchmark shares: timing side by side, ratios, memory, growth, random weights.

See README.md for the convention that `run_all.py` relies on.
"""

from __future__ import annotations

import functools
import gc
import mmap
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lnattn import AttentionLayer, Embeddings, FirstLayer, LayerNorm

#: Sizes of GPT-2 small, for benchmarks that need no trained weights.
GPT2_SMALL = {"vocab": 50_257, "d_model": 768, "heads": 12, "positions": 1024}


@dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of one method: every round, and what is reported of them."""

    method: str
    rounds: tuple[float, ...]
    peak_mib: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def as_row(self) -> dict[str, Any]:
        """The entry of this method in a benchmark's `rows`."""
        return {
            "method": self.method,
            "seconds": self.median,
            "fastest": min(self.rounds),
            "slowest": max(self.rounds),
            "repeats": len(self.rounds),
            "peak_mib": self.peak_mib,
        }


def time_side_by_side(
    methods: Mapping[str, Callable[[], Any]],
    repeats: int = 5,
    warm_up: int = 1,
    pause: float = 0.0,
    in_a_row: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Time several methods in turn (A B C, A B C, …), so that all see the same machine load.

    pause: seconds of rest before each call, for methods of a few milliseconds: threads that torch
    has used go on spinning for that long, and would slow down whoever comes next. in_a_row: calls
    that a round of a method has, for what is called again and again in use; its seconds are those
    of one. After a rest a short call waits for cold caches and threads.

    The first `warm_up` rounds are run and not counted: they compile kernels and fill caches.
    Python's garbage collector is off meanwhile, so that its pauses hit no method.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    was_on = gc.isenabled()
    gc.disable()
    try:
        for number in range(warm_up + repeats):
            for name, method in methods.items():
                if pause:
                    time.sleep(pause)
                calls = (in_a_row or {}).get(name, 1)
                begin = time.perf_counter()
                for _ in range(calls):
                    method()
                elapsed = time.perf_counter() - begin
                if number >= warm_up:
                    seconds[name].append(elapsed / calls)
    finally:
        if was_on:
            gc.enable()
    return {name: Timing(name, tuple(rounds)) for name, rounds in seconds.items()}


def ratio(
    slow: Timing, fast: Timing, *, floor: float | None = None, work: float = 1.0
) -> dict[str, Any]:
    """How many times faster `fast` is: the median of the ratios of paired rounds, and their range.

    Where the rounds differ in number, the ratio of the medians and of the extremes is given.
    work: how many times more work `slow` would have to do to match `fast` (12 when it was timed on
    one of twelve heads). floor: the ratio that the project asks for, shown beside the result.
    """
    if len(slow.rounds) == len(fast.rounds):
        ratios = [work * a / b for a, b in zip(slow.rounds, fast.rounds, strict=True)]
        middle = statistics.median(ratios)
        low = min(ratios)
        high = max(ratios)
    else:
        middle = work * slow.median / fast.median
        low = work * min(slow.rounds) / max(fast.rounds)
        high = work * max(slow.rounds) / min(fast.rounds)
    return {
        "of": slow.method,
        "to": fast.method,
        "median": middle,
        "low": low,
        "high": high,
        "floor": floor,
    }


def peak_memory(method: Callable[[], Any]) -> float | None:
    """MiB by which resident memory rises above its level before the call, at its highest.

    Linux only: the kernel's high-water mark is reset first. None where that cannot be done, or
    where the mark does not move (some sandboxes have it, and let it be).
    """
    return _growth(method) if _mark_moves() else None


@functools.cache
def _mark_moves() -> bool:
    """Whether the high-water mark sees 16 MiB that are touched and given back."""
    try:
        return _growth(lambda: touch(16)) >= 15
    except OSError:
        return False


def touch(mebibytes: int) -> None:
    """Write to so many MiB of new pages, past every allocator, and give them back."""
    with mmap.mmap(-1, mebibytes << 20) as pages:
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1


def _growth(method: Callable[[], Any]) -> float:
    status = Path("/proc/self/status")
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_kib(status, "VmRSS")
    method()
    return (_status_kib(status, "VmHWM") - before) / 1024


def _status_kib(status: Path, key: str) -> int:
    for line in status.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{status} has no line {key}")


def process_peak_mib() -> float:
    """MiB of resident memory at the highest point of this process's life."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def fitted_slope(x: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent k of seconds ≈ c · x^k: least squares on the logarithms."""
    if len(x) != len(seconds) or len(x) < 2:
        raise ValueError("a slope needs two or more sizes and one time for each")
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0])


def growth(
    against: str,
    label: str,
    sizes: Sequence[int],
    make: Callable[[int], Mapping[str, Callable[[], Any]]],
    repeats: int = 3,
    pause: float = 0.0,
    in_a_row: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """How each method's time grows with one size, the others fixed.

    against: the symbol (V, d, P, documents …); label: its name in words; make: builds the methods
    for one size (not timed). Methods may be left out of large sizes: their series gets None there.
    pause, in_a_row: see `time_side_by_side`.
    """
    series: dict[str, list[float | None]] = {}
    for column, size in enumerate(sizes):
        timings = time_side_by_side(make(size), repeats, pause=pause, in_a_row=in_a_row)
        for name, timing in timings.items():
            series.setdefault(name, [None] * len(sizes))[column] = timing.median
    slopes = {}
    for name, seconds in series.items():
        known = [(x, y) for x, y in zip(sizes, seconds, strict=True) if y is not None]
        if len(known) >= 2:
            slopes[name] = fitted_slope(*zip(*known, strict=True))
    return {
        "against": against,
        "label": label,
        "sizes": list(sizes),
        "seconds": series,
        "slopes": slopes,
    }


def random_first_layer(
    vocab: int = GPT2_SMALL["vocab"],
    d_model: int = GPT2_SMALL["d_model"],
    heads: int = GPT2_SMALL["heads"],
    positions: int = GPT2_SMALL["positions"],
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> FirstLayer:
    """Random weights of GPT-2 small's shape, and roughly its size: standard deviations as there.

    Gains and biases are random, never 1 and 0, so that no shortcut of a special case is timed.
    """
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int, scale: float) -> torch.Tensor:
        return (scale * torch.randn(*shape, generator=generator)).to(dtype)

    d_head = d_model // heads
    weight = 0.14 * (768 / d_model) ** 0.5
    layer = AttentionLayer(
        ln=LayerNorm(0.2 + noise(d_model, scale=0.04), noise(d_model, scale=0.04)),
        W_Q=noise(heads, d_model, d_head, scale=weight),
        W_K=noise(heads, d_model, d_head, scale=weight),
        W_V=noise(heads, d_model, d_head, scale=weight),
        W_O=noise(heads, d_head, d_model, scale=weight),
        b_Q=noise(heads, d_head, scale=0.4),
        b_K=noise(heads, d_head, scale=0.4),
        b_V=noise(heads, d_head, scale=0.1),
        b_O=noise(d_model, scale=0.1),
    )
    embeddings = Embeddings(
        W_E=noise(vocab, d_model, scale=0.14), W_P=noise(positions, d_model, scale=0.12)
    )
    return FirstLayer(
        embeddings,
        layer,
        provenance={"name": f"random weights of GPT-2 small's shape, seed {seed}"},
    )


def machine() -> dict[str, Any]:
    """What the timings were taken on: processor, cores in use, memory, and how busy it was."""
    info = Path("/proc/cpuinfo")
    processor = "unknown processor"
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(memory, 1),
        "load_at_start": [round(load, 2) for load in os.getloadavg()],
    }
