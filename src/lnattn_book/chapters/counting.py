"""What the page on counting states of a cluster, from the frozen benchmark of two workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from lnattn_book.page import Check, says
from lnattn_book.studies.benchmark_report import Benchmark

#: Tokens of OpenWebText, with GPT-2's tokenizer, as the paper says.
OPENWEBTEXT = 9e9


def worker_rate(workload: Mapping[str, Any]) -> float:
    """Tokens that one worker counts in a second of its processor."""
    return workload["tokens"] / sum(workload["worker_seconds"])


def hours_on_cores(
    workload: Mapping[str, Any], tokens: float, cores: Sequence[int]
) -> pd.DataFrame:
    """Hours in which a cluster would count so many tokens, by its cores, at the measured rates.

    workload: of the frozen benchmark 'dask'. Columns: 'by the workers', which share the work
    evenly; 'by one process', which plans, adds up and writes, and whose work no core takes over.
    The second grows like the tokens here; like distinct pairs, it would grow more slowly.
    """
    alone = tokens * workload["own_seconds"] / workload["tokens"] / 3600
    rows = {
        number: {
            "by the workers": tokens / worker_rate(workload) / number / 3600,
            "by one process": alone,
        }
        for number in cores
    }
    return pd.DataFrame(rows).T.rename_axis("cores")


def checks(
    counted: Benchmark, cluster: Benchmark, hours: float, heaps: tuple[float, float]
) -> Iterator[Check]:
    """What the page says of its numbers.

    counted, cluster: the benchmarks 'counting' and 'dask'; hours: what OpenWebText would take on
    one machine; heaps: β, and over which factor of text it is stretched.
    """
    work = counted.workload
    speed = counted.ratios[0]
    over = work["pass_over_floor"]
    whole = next(row for row in counted.rows if row["method"] == "lnattn count, text to npz")
    yield says("1.7 hours on two cores", hours, work["cores"] == 2)
    yield says("a pass over 37 million tokens of text", work["text_tokens"])
    yield says("27 times as fast as a", speed["median"])
    yield says("On 50 million tokens", work["tokens"])
    yield says("sorting is 27 times as fast (the goal was 10)", speed["median"], speed["floor"])
    yield says("added 2.5 GiB to its process", counted.rows[0]["peak_mib"] / 1024)
    yield says("takes 1.34 times as long", over["median"])
    yield says("1.33 to 1.35 in the rounds", over["low"], over["high"])
    yield says("1,045 MiB in all its processes", whole["peak_mib"])
    yield says("= 0.70 over the parts", heaps[0])
    yield says("a factor of 5,800", round(heaps[1], -2))
    measured = cluster.workload
    by_cores = hours_on_cores(measured, OPENWEBTEXT, (1, 16, 64))
    minutes = 60 * by_cores["by the workers"]
    alone = by_cores["by the workers"][1] / by_cores["by one process"][1]
    rate = worker_rate(measured) / (work["text_tokens"] / whole["seconds"] / work["cores"])
    yield says("counted 6.2 million tokens of 16 files", measured["tokens"], measured["shards"])
    on_16 = minutes[16]
    on_64 = minutes[64]
    yield says(
        "twelve minutes on 16 cores, three on 64",
        [16, 64],
        round(on_16) == 12,
        round(on_64) == 3,
        found=[on_16, on_64],
    )
    yield says("from seventeen cores on", 16 < alone < 17, found=alone)
    yield says("counted about as much as it did", 0.9 < rate < 1.1, found=rate)
