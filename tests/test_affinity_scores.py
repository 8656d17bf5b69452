"""The blocks in which scores are made: together all of them, each once, with their places."""

from __future__ import annotations

from threading import Lock

import numpy as np
import pytest
import torch

from lnattn.studies.affinity import scores
from lnattn.studies.affinity.scores import look_at_scores


def put_together(
    queries: torch.Tensor, keys: torch.Tensor, tiles: bool
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The blocks as one matrix, NaN where none came, and their corners in the order they came."""
    whole = np.full((len(queries), len(keys)), np.nan, dtype=queries.numpy().dtype)
    corners, lock = [], Lock()

    def look(row: int, column: int, block: np.ndarray) -> None:
        with lock:
            corners.append((row, column))
            place = whole[row : row + len(block), column : column + block.shape[1]]
            assert place.shape == block.shape
            assert np.isnan(place).all()
            place[...] = block

    look_at_scores(look, queries, keys, tiles=tiles)
    return whole, corners


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 4), (11, 9), (3, 25)])
def test_blocks_make_up_all_scores(monkeypatch, shape, tiles, dtype):
    """Of few rows and columns, so that there are many, and some are cut short."""
    monkeypatch.setattr(scores, "TILE", (4, 3))
    monkeypatch.setattr(scores, "BLOCK_BYTES", 4 * 20)
    rows, vocab = shape
    queries = torch.randn(rows, 2, dtype=dtype)
    keys = torch.randn(vocab, 2, dtype=dtype)
    whole, corners = put_together(queries, keys, tiles)
    torch.testing.assert_close(torch.from_numpy(whole), queries @ keys.T)
    for row in range(rows):
        columns = [column for first, column in corners if first == row]
        assert columns == sorted(columns)
        assert tiles or columns in ([], [0])
    assert len(corners) == (
        -(-rows // 4) * -(-vocab // 3) if tiles else len({r for r, _ in corners})
    )
