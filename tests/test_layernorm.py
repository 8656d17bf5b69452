"""B1, B2: LayerNorm is a projection onto the plane orthogonal to 1, then scaling to norm √d."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn import LayerNorm, plain
from lnattn.attention.layernorm import (
    center,
    divide_by_sigma,
    layer_norm,
    sigma,
    standardise,
)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 64])
def test_centring_matrix_is_the_orthogonal_projection(d):
    C = torch.from_numpy(plain.centring(d))
    ones = torch.ones(d, dtype=torch.float64)
    torch.testing.assert_close(C @ C, C)
    torch.testing.assert_close(C, C.T)
    assert (C @ ones).abs().max() < 1e-12
    assert int(torch.linalg.matrix_rank(C, tol=1e-9)) == d - 1


@settings(max_examples=50, deadline=None)
@given(d=st.integers(2, 40), n=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_standardised_vectors_lie_on_a_sphere_in_the_plane(d, n, seed):
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 3
    y = standardise(x)
    torch.testing.assert_close(y.norm(dim=-1), torch.full((n,), math.sqrt(d), dtype=y.dtype))
    assert y.sum(-1).abs().max() < 1e-9
    torch.testing.assert_close(center(x), x @ torch.from_numpy(plain.centring(d)))


def test_a_plane_through_the_ones_vector_collapses_to_two_points():
    """B2: every a·v + b·1 is mapped to +√d·v̂ or −√d·v̂, by the sign of a."""
    generator = torch.Generator().manual_seed(3)
    v = center(torch.randn(8, generator=generator, dtype=torch.float64))
    v = v / v.norm()
    a = torch.randn(50, 1, generator=generator, dtype=torch.float64)
    b = torch.randn(50, 1, generator=generator, dtype=torch.float64)
    image = standardise(a * v + b)
    torch.testing.assert_close(image, a.sign() * math.sqrt(8) * v)
    assert a.min() < 0 < a.max()


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.1])
def test_layer_norm_equals_torch(eps):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 5, 16, generator=generator, dtype=torch.float64) * 3 + 2
    gamma = torch.randn(16, generator=generator, dtype=torch.float64)
    beta = torch.randn(16, generator=generator, dtype=torch.float64)
    expected = torch.nn.functional.layer_norm(x, (16,), gamma, beta, eps)
    torch.testing.assert_close(layer_norm(x, LayerNorm(gamma, beta, eps)), expected)
    folded = (
        divide_by_sigma(x, eps) @ torch.from_numpy(plain.centring(16)) @ torch.diag(gamma) + beta
    )
    torch.testing.assert_close(folded, expected, atol=1e-12, rtol=1e-10)


def test_constant_vectors():
    constant = torch.full((1, 6), 2.5, dtype=torch.float64)
    assert standardise(constant).isnan().all()  # no direction is left, and eps is 0
    assert standardise(constant, 1e-5).abs().max() == 0
    assert sigma(constant, 0.25).item() == 0.5


def test_layer_norm_mixes_the_features():
    """A change of one feature moves all others, so features are not treated one by one."""
    x = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    y = x.clone()
    y[0] += 1
    moved = (standardise(y, 1e-5) - standardise(x, 1e-5)).abs()
    assert (moved > 1e-3).all()
