"""What the page on performance states of the frozen benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lnattn_book.benchmark_report import Benchmark, to_other_ways

#: Times as long as what cannot be beaten, in the frozen benchmarks of commit 94d39ffc, of
#: 21 to 23 November 2026.
BEFORE = {
    "AUROC of all heads": 2.1,
    "contributions of a document": 1.3,
    "bands over all tokens": 1.2,
    "pairs of a text, to a file": 1.1,
}


class Speeds(NamedTuple):
    """How many times as fast the studies are as other ways to the same numbers.

    least, most: of all comparisons; share_reached: of those with a goal, how many reach it.
    """

    least: float
    most: float
    share_reached: float


def speeds(benchmarks: Sequence[Benchmark]) -> Speeds:
    """The medians of all comparisons with other ways, and their goals (`floor`)."""
    ratios = [ratio for _, ratio in to_other_ways(benchmarks)]
    medians = [ratio["median"] for ratio in ratios]
    reached = [ratio["median"] >= ratio["floor"] for ratio in ratios if ratio["floor"] is not None]
    return Speeds(min(medians), max(medians), float(np.mean(reached)))


def named(benchmarks: Sequence[Benchmark], name: str) -> Benchmark:
    """The benchmark of this name."""
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    return by_name[name]


def times_over_floors(benchmarks: Sequence[Benchmark]) -> pd.DataFrame:
    """How many times as long the book's code takes as the part that no code can do without.

    A row a computation; 'Times as long as' names that part: bare matrix products, or the
    tokenizer. 'Before' is of `BEFORE`, 'Now' of the benchmarks; 'Now / before' their ratio.
    """
    counting = named(benchmarks, "counting").workload["pass_over_floor"]["median"]
    rows = {
        "AUROC of all heads": ("products", _over(benchmarks, "affinity", 1)),
        "contributions of a document": ("products", _over(benchmarks, "contribution", 1)),
        "bands over all tokens": ("products", _over(benchmarks, "position", 3)),
        "pairs of a text, to a file": ("tokenizer", counting),
    }
    table = pd.DataFrame(rows, index=["Times as long as", "Now"]).T
    now = table["Now"].astype(float)
    before = pd.Series(BEFORE)
    columns = {"Before": before, "Now": now, "Now / before": now / before}
    return table[["Times as long as"]].assign(**columns).rename_axis("Computed")


def _over(benchmarks: Sequence[Benchmark], name: str, entry: int) -> float:
    """How many times as long: one over the speed that the entry of a benchmark compares."""
    return 1 / named(benchmarks, name).ratios[entry]["median"]


def exponents(scale: Benchmark) -> pd.DataFrame:
    """With which power of a size time grows: a row a computation and size, of benchmark 'scale'.

    'Sizes': from the smallest to the largest that was measured; 'Measured' and 'Expected' are
    exponents; 'CPU s' and 'GiB' belong to the largest size.
    """
    rows = []
    for entry in scale.growth:
        for method, slope in entry["slopes"].items():
            seconds = entry["seconds"][method]
            known = [place for place, value in enumerate(seconds) if value is not None]
            sizes = [entry["sizes"][place] for place in known]
            row = {
                "Computed": method,
                "Against": entry["against"],
                "Sizes": f"{sizes[0]:,} to {sizes[-1]:,}",
                "Measured": slope,
                "Expected": entry["expected"][method],
                "CPU s": seconds[known[-1]],
                "GiB": entry["peak_mib"][method][known[-1]] / 1024,
            }
            rows.append(row)
    return pd.DataFrame(rows).set_index(["Computed", "Against"])


def exponent_from(scale: Benchmark, method: str, against: str, least: int) -> float:
    """The measured exponent of a computation over the sizes from `least` on."""
    entry = next(entry for entry in scale.growth if entry["against"] == against)
    points = [
        (size, value)
        for size, value in zip(entry["sizes"], entry["seconds"][method], strict=True)
        if value is not None and size >= least
    ]
    logarithms = np.log(points)
    return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])


def left_out(scale: Benchmark) -> list[str]:
    """The points of the benchmark 'scale' that took too much time or memory, in words."""
    return [
        f"{method}, {entry['against']} = {size:,}"
        for entry in scale.growth
        for method, seconds in entry["seconds"].items()
        for size, value in zip(entry["sizes"], seconds, strict=True)
        if value is None
    ]
