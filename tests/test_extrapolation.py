"""Scaling the counting benchmark: laws that are exact must come out exactly."""

from __future__ import annotations

import numpy as np
import pytest

from lnattn.text.corpora import LARGEST_SHARD
from lnattn_book.extrapolation import METHOD, estimate, fit_heaps_law

TOKENS = [1000, 2000, 4000, 8000]
WORKLOAD = {
    "text_tokens": 8000,
    "text_mib": 0.5,
    "cores": 2,
    "distinct_growth": {"tokens": TOKENS, "distinct": [3 * n**0.75 for n in TOKENS]},
}
ROWS = [{"method": "another", "seconds": 1.0}, {"method": METHOD, "seconds": 4.0}]


def test_an_exact_law_is_found() -> None:
    law = fit_heaps_law(TOKENS, [3 * n**0.75 for n in TOKENS])
    assert (law.k, law.beta, law.last) == pytest.approx((3, 0.75, 0.75))
    bent = fit_heaps_law(TOKENS, [500, 900, 1500, 2200])
    assert bent.last < bent.beta
    assert bent.last == pytest.approx(np.log2(2200 / 1500))


def test_time_is_proportional_and_shared_by_the_cores() -> None:
    cost = estimate(WORKLOAD, ROWS, 8000, 2, 2.5)
    assert cost.hours == pytest.approx(4 / 3600)
    assert estimate(WORKLOAD, ROWS, 80_000, 8, 2.5).hours == pytest.approx(10 / 3600)


def test_sizes_follow_the_law() -> None:
    per_shard = 16_000 * LARGEST_SHARD / 2**20
    small = estimate(WORKLOAD, ROWS, 8000, 2, 2.5)
    large = estimate(WORKLOAD, ROWS, 16 * per_shard, 2, 2.5)
    one = estimate(WORKLOAD, ROWS, per_shard, 2, 2.5)
    assert small.distinct_pairs == pytest.approx(3 * 8000**0.75, rel=1e-3)
    assert large.distinct_pairs == pytest.approx(8 * one.distinct_pairs)
    # Sixteen shards have sixteen parts, each with its own rare pairs.
    assert large.parts == pytest.approx(16 * one.parts)
    assert one.parts == pytest.approx(one.distinct_pairs * 2.5 / 2**30)
    assert large.result == pytest.approx(large.distinct_pairs * 2.5 / 2**30)
    assert large.loaded == pytest.approx(large.distinct_pairs * 12 / 2**30)
