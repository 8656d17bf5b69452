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
@given(row=sizes, rank=sizes, col=sizes, heads=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_norm_and_core_have_the_dense_singular_values(row, rank, col, heads, seed):
    factored = matrix(seed, (heads,), row, rank, col)
    dense = factored.left @ factored.right
    exact = torch.linalg.svdvals(dense)
    ours = torch.linalg.svdvals(factored.core())
    assert (factored.norm() - torch.linalg.matrix_norm(dense)).abs().max() < 1e-10
    assert ours.shape == (heads, min(row, rank, col))
    assert (ours - exact[:, : ours.shape[1]]).abs().max() < 1e-10
    # What is left out is what the dense matrix has as zeros.
    assert exact[:, ours.shape[1] :].abs().sum() < 1e-10


@settings(max_examples=60, deadline=None)
@given(row=sizes, rank=sizes, heads=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_eigenvalues_equal_the_dense_ones(row, rank, heads, seed):
    factored = matrix(seed, (heads,), row, rank, row)
    dense = factored.left @ factored.right
    values = factored.eigenvalues()
    assert values.shape == (heads, min(row, rank))
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
@given(a=sizes, r=sizes, b=sizes, s=sizes, c=sizes, seed=st.integers(0, 10**6))
def test_products_stay_factored_and_equal_the_dense_product(a, r, b, s, c, seed):
    first, second = matrix(seed, (2,), a, r, b), matrix(seed + 9, (2,), b, s, c)
    product = first @ second
    assert product.inner == min(r, s)
    assert (product.dense() - first.dense() @ second.dense()).abs().max() < 1e-10
    plain = noise(seed, c, 3)
    assert ((second @ plain).dense() - second.dense() @ plain).abs().max() < 1e-10
    plain = noise(seed, 3, a)
    assert ((plain @ first).dense() - plain @ first.dense()).abs().max() < 1e-10
    x = noise(seed + 5, 4, a)
    assert (first.apply(x) - x @ first.dense()).abs().max() < 1e-10
    assert torch.equal(first.T.dense(), (first.left @ first.right).mT) or (
        (first.T.dense() - first.dense().mT).abs().max() < 1e-12
    )


def test_small_singular_values_keep_their_digits():
    """A Gram matrix would return noise of 1e-8 here; the QR route keeps 1e-12."""
    u = torch.linalg.qr(noise(1, 40, 3)).Q
    v = torch.linalg.qr(noise(2, 40, 3)).Q
    exact = torch.tensor([1.0, 1e-6, 1e-12], dtype=torch.float64)
    ours = torch.linalg.svdvals(FactoredMatrix(u * exact, v.mT).core())
    assert ((ours - exact).abs() < 1e-15).all()


def test_selecting_one_matrix_of_a_batch():
    factored = matrix(4, (3,), 5, 2, 5)
    assert torch.equal(factored[1].dense(), factored.left[1] @ factored.right[1])
