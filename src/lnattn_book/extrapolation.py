"""What counting a corpus of any size would cost, from what the benchmark measured.

Time is proportional to the tokens and, by the benchmark's own measure, to the inverse of the cores.
The number of distinct pairs follows Heaps' law, k Nᵝ, fitted to parts of a real text. For much
larger N that is an overestimate: the exponent falls as the common pairs have all been seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lnattn.errors import ResultError
from lnattn.text.corpora import LARGEST_SHARD

#: The row of the benchmark that is extrapolated.
METHOD = "lnattn count, text to npz"
#: Bytes of one distinct pair in memory: its index (int32) and its count (int64).
LOADED = 12
_GIB = 2**30


@dataclass(frozen=True)
class HeapsLaw:
    """distinct = k · tokens^beta; `last` is the exponent between the two largest parts alone."""

    k: float
    beta: float
    last: float

    def __call__(self, tokens: int | float) -> float:
        return self.k * tokens**self.beta


def fit_heaps_law(tokens: Sequence[int | float], distinct: Sequence[int | float]) -> HeapsLaw:
    """Least squares on the logarithms; `ResultError` for fewer than two sizes."""
    if len(tokens) != len(distinct) or len(tokens) < 2:
        raise ResultError("Heaps' law needs two sizes or more, with a number of pairs for each.")
    x, y = np.log(tokens), np.log(distinct)
    beta, constant = np.polyfit(x, y, 1)
    last = (y[-1] - y[-2]) / (x[-1] - x[-2])
    return HeapsLaw(float(np.exp(constant)), float(beta), float(last))


@dataclass(frozen=True)
class Cost:
    """Estimates for one corpus on one machine: hours, distinct pairs, and GiB of disk and memory.

    parts: on disk while it counts; result: the compressed npz; loaded: the counts in memory.
    """

    cores: int
    hours: float
    distinct_pairs: float
    parts: float
    result: float
    loaded: float


def estimate(
    workload: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    tokens: int | float,
    cores: int,
    bytes_per_pair: int | float,
) -> Cost:
    """Scale the counting benchmark to `tokens` tokens on `cores` cores.

    workload, rows: of the frozen benchmark; bytes_per_pair: of a compressed npz that exists.
    """
    seconds = next((row["seconds"] for row in rows if row["method"] == METHOD), None)
    if seconds is None:
        raise ResultError(f"the benchmark has no row {METHOD!r}; run benchmarks/run_all.py again.")
    rate = workload["text_tokens"] / seconds / workload["cores"]
    law = fit_heaps_law(**workload["distinct_growth"])
    of_shard = workload["text_tokens"] / workload["text_mib"] * LARGEST_SHARD / 2**20
    shards = max(1.0, tokens / of_shard)
    distinct = law(tokens)
    return Cost(
        cores=cores,
        hours=tokens / rate / cores / 3600,
        distinct_pairs=distinct,
        parts=shards * law(tokens / shards) * bytes_per_pair / _GIB,
        result=distinct * bytes_per_pair / _GIB,
        loaded=distinct * LOADED / _GIB,
    )
