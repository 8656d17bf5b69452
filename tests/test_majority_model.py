"""The majority models: parameters, their start, and LayerNorm along other normal vectors."""

from __future__ import annotations

import math

import torch

from lnattn_book.studies.majority.encoder import (
    MajorityTransformer,
    arm,
    initial_parameters,
    other_normals,
)


def test_parameters_of_the_paper():
    parameters = initial_parameters(0)
    assert sum(value.numel() for value in parameters.values()) == 584
    model = MajorityTransformer(arm("layernorm"))
    assert sum(value.numel() for value in model.parameters()) == 584
    assert {name: value.shape for name, value in model.named_parameters()} == {
        name: value.shape for name, value in parameters.items()
    }


def test_start_is_torchs_own_and_leaves_the_callers_random_state():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again = initial_parameters(7), initial_parameters(7)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    torch.manual_seed(7)
    model = MajorityTransformer(arm("authors"))
    assert all(torch.equal(first[name], value) for name, value in model.named_parameters())
    scaled = initial_parameters(7, scale=8.0)
    name = "layer.self_attn.in_proj_weight"
    torch.testing.assert_close(scaled.pop(name), 8 * first.pop(name))
    assert all(torch.equal(first[name], value) for name, value in scaled.items())


def test_other_normals_are_of_length_1_and_orthogonal_to_1_and_to_each_other():
    normals = other_normals(8, 5)
    torch.testing.assert_close(normals @ normals.T, torch.eye(5).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(normals.sum(dim=1), torch.zeros(5).double(), rtol=0, atol=1e-12)


def test_another_normal_vector_is_layernorm_in_turned_coordinates():
    """With R orthogonal and u R = 1/√d: y_u(x) R = LN(x R), before gain and bias."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20, 8, dtype=torch.float64, generator=generator)
    (u,), ones = other_normals(8, 1), torch.ones(8, dtype=torch.float64) / math.sqrt(8)
    w = u - ones
    R = torch.eye(8).double() - 2 * torch.outer(w, w) / w.dot(w)  # the reflection that swaps them
    turned = arm("other-normal").normalise(x) @ R
    torch.testing.assert_close(turned, arm("layernorm").normalise(x @ R))


def test_nothing_is_lost_without_the_projection():
    """(21): RMSNorm reads of centred embeddings what LayerNorm reads; of others, C W does it."""
    e, W = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    whole, bare = arm("layernorm").normalise, arm("rms").normalise
    W, C = W[:8, :5], torch.eye(8).double() - 1 / 8
    torch.testing.assert_close(bare(e @ C), whole(e), rtol=0, atol=1e-12)
    factor = (whole(e) @ W) / (bare(e) @ C @ W)
    torch.testing.assert_close(factor, factor[:, :1].clamp(min=1).expand_as(factor))


def test_layernorm_arm_is_torchs_layer_norm():
    x = torch.randn(20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.layer_norm(x, (8,), eps=0.0)
    torch.testing.assert_close(arm("layernorm").normalise(x), expected)
