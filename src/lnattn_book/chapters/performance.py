"""What the page on performance states of the frozen benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lnattn.errors import capitalised
from lnattn_book.page import Check, says
from lnattn_book.studies.benchmark_report import Benchmark, to_other_ways

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


def times_of_lens(lens: Benchmark) -> dict[str, float]:
    """How many times as long TransformerLens takes as ours, by what is called of it."""
    return {ratio["of"].partition(", ")[2]: ratio["median"] for ratio in lens.ratios}


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


#: What is measured of time may exceed what is expected by so much of an exponent unremarked.
_SLACK = 0.2


def growth_told(scale: Benchmark) -> str:
    """Which exponents exceed what is expected, which points are left out: two sentences."""
    table = exponents(scale)
    faster = table[table["Measured"] - table["Expected"] > _SLACK]
    exceeding = [
        f"{method} over {symbol} ({row['Measured']:.2f} for {row['Expected']:.2f})"
        for (method, symbol), row in faster.iterrows()
    ]
    absent = left_out(scale)
    return (
        "Time exceeds what is expected by more than a fifth of a power in "
        f"{', '.join(exceeding) or 'no curve'}. "
        f"Left out, since they took too much time or memory: {', '.join(absent) or 'no points'}."
    )


def load_of(scale: Benchmark) -> str:
    """How busy the machine was when the measurement began."""
    hardware = scale.record["hardware"]
    return (
        f"{hardware['load_at_start'][0]:.1f} processes were running or waiting for one of "
        f"{hardware['cores']} cores when it began."
    )


def slower_told(table: pd.DataFrame) -> str:
    """Which computations of `times_over_floors` take longer than before, and which do not."""
    ratios = table["Now / before"].sort_values(ascending=False)
    groups = {
        "Longer than before, by more than a tenth": ratios[ratios > 1.1],
        "as long": ratios[(ratios <= 1.1) & (ratios >= 0.9)],
        "shorter": ratios[ratios < 0.9],
    }
    words = [
        f"{title}: " + ", ".join(f"{name} ({ratio:.1f} times)" for name, ratio in group.items())
        for title, group in groups.items()
        if len(group)
    ]
    sentence = "; ".join(words)
    return f"{capitalised(sentence)}."


def left_out(scale: Benchmark) -> list[str]:
    """The points of the benchmark 'scale' that took too much time or memory, in words."""
    return [
        f"{method}, {entry['against']} = {size:,}"
        for entry in scale.growth
        for method, seconds in entry["seconds"].items()
        for size, value in zip(entry["sizes"], seconds, strict=True)
        if value is None
    ]


def checks(speeds: Speeds, of_lens: dict[str, float], powers: pd.DataFrame) -> Iterator[Check]:
    """What the page says of its numbers; powers: what `exponents` gives."""
    several = 400 < speeds.most < 1000
    yield says(
        "from about three to several hundred",
        2.5 < speeds.least < 3.9,
        several,
        found=[speeds.least, speeds.most],
    )
    steps = of_lens["its steps for attention"]
    others = [times for call, times in of_lens.items() if call != "its steps for attention"]
    yield says("folds attention in about the same time", 0.5 < steps < 2, found=steps)
    yield says("several times as long for the rest", np.array(others) > 2, found=others)
    yield says("Not every goal is reached", speeds.share_reached < 1, found=speeds.share_reached)
    memory = powers["GiB"]
    of_pairs = memory["six terms, attention", "P"]
    of_blocks = memory["contributions", "P"]
    yield says("take most memory", of_pairs == memory.max(), of_pairs > 4, found=of_pairs)
    yield says("take less than a fifth of it", of_blocks < of_pairs / 5, found=of_blocks / of_pairs)
