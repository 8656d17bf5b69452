"""What the page on counting states of a cluster, from the frozen benchmark of two workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


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
