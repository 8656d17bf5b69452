"""The blocks in which scores are made: together all of them, each once, with their places."""

from __future__ import annotations

from threading import Lock

import numpy as np
import pytest
import torch
from naming import naming

from lnattn.affinity import scores
from lnattn.affinity.scores import for_each_score_block
from lnattn.errors import ResultError
from lnattn.products import multiply


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (5, 4), (11, 9), (3, 25)])
def test_blocks_make_up_all_scores(monkeypatch, shape, dtype, library):
    """Of few rows, so that there are several, and the last is cut short."""
    monkeypatch.setattr(scores, "BLOCK_BYTES", 4 * 20)
    monkeypatch.setenv("LNATTN_PRODUCTS", library)
    rows, vocab = shape
    queries = torch.randn(rows, 2, dtype=dtype)
    keys = torch.randn(vocab, 2, dtype=dtype)
    whole, lock = np.full((rows, vocab), np.nan, dtype=queries.numpy().dtype), Lock()

    def visit(begin: int, block: np.ndarray) -> None:
        with lock:
            assert np.isnan(whole[begin : begin + len(block)]).all()
            whole[begin : begin + len(block)] = block

    for_each_score_block(visit, queries, keys)
    torch.testing.assert_close(torch.from_numpy(whole), queries @ keys.T)


def test_an_unknown_library_is_refused(monkeypatch):
    monkeypatch.setenv("LNATTN_PRODUCTS", "abacus")
    with pytest.raises(ResultError, match=naming("torch", "numpy")):
        multiply(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1))
