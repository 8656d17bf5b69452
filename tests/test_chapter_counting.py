"""What a cluster would take, from seconds that are planted."""

from __future__ import annotations

import pytest

from lnattn_book.chapters import counting as chapter

#: Two workers of 40 and 60 s count 3,600 tokens; one process takes 1 s more.
MEASURED = {"tokens": 3600, "worker_seconds": [40.0, 60.0], "own_seconds": 1.0}


def test_a_worker_counts_the_tokens_in_the_seconds_of_all_workers():
    assert chapter.worker_rate(MEASURED) == 36


def test_workers_share_their_hours_and_one_process_keeps_its_own():
    table = chapter.hours_on_cores(MEASURED, 3600.0**2, [1, 4])
    assert table.index.tolist() == [1, 4]
    # 3,600 times the tokens: each second of the measured run becomes an hour.
    assert table["by the workers"].tolist() == pytest.approx([100, 25])
    assert table["by one process"].tolist() == pytest.approx([1, 1])
