"""Every answer of a FactoredMatrix equals the one of the dense product it stands for."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn.attention.factored import FactoredMatrix

sizes = st.integers(1, 7)


def noise(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def matrix(seed, batch, row, rank, col):
    return FactoredMatrix(noise(seed, *batch, row, rank), noise(seed + 1, *batch, rank, col))


@settings(max_examples=40, deadline=None)
@given(a=sizes, r=sizes, b=sizes, seed=st.integers(0, 10**6))
def test_rows_through_the_factors_equal_the_dense_product(a, r, b, seed):
    factored, x = matrix(seed, (2,), a, r, b), noise(seed + 5, 4, a)
    assert (factored.apply(x) - x @ factored.dense()).abs().max() < 1e-10
    torch.testing.assert_close(factored.T.dense(), factored.dense().mT, atol=1e-12, rtol=0)


def test_factors_of_any_rank_fit():
    """Ranks are compared by their number: those of wide heads are no small integers of Python's."""
    factored = matrix(4, (), 2, 300, 3)
    assert factored.dense().shape == (2, 3)
