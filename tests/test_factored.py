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


@settings(max_examples=60, deadline=None)
@given(row=sizes, rank=sizes, heads=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_eigenvalues_equal_the_dense_ones(row, rank, heads, seed):
    factored = matrix(seed, (heads,), row, rank, row)
    dense = factored.left @ factored.right
    values = factored.eigenvalues()
    assert values.shape == (heads, rank)
    # Compare as sets, through power sums: sorting complex numbers is ambiguous at ties.
    for power in (1, 2, 3):
        exact = torch.diagonal(torch.linalg.matrix_power(dense, power), dim1=-2, dim2=-1).sum(-1)
        ours = (values**power).sum(-1)
        size = 1 + values.abs().max() ** power
        assert (ours - exact).abs().max() / size < 1e-10


def test_eigenvalues_of_a_known_matrix_in_order():
    basis = noise(3, 5, 5)
    values = torch.tensor([1.0, -4.0, 2.5], dtype=torch.float64)
    factored = FactoredMatrix(basis[:, :3] * values, torch.linalg.inv(basis)[:3])
    expected = torch.tensor([-4.0, 2.5, 1.0], dtype=torch.float64)
    assert (factored.eigenvalues() - expected).abs().max() < 1e-10


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
