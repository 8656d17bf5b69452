"""Gradients and likeness along a stack, against finite differences and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lnattn.attention.forward import post_ln_layer, pre_ln_layer
from lnattn.attention.layernorm import standardise
from lnattn_book.studies.depth import ORDERS, through_depth, turned_by_steps, xavier_block

SIZES = {"d_model": 6, "heads": 2, "tokens": 4, "seed": 3}
#: So few weights that each of them can be moved, up and down.
FEW = SIZES | {"d_model": 3, "heads": 1}


def stack(depth: int, d_model: int, heads: int, tokens: int, seed: int):
    """The same tokens, readout and blocks as `through_depth` draws."""
    generator = torch.Generator().manual_seed(seed)
    x, readout = torch.randn(2, tokens, d_model, generator=generator, dtype=torch.float64)
    blocks = [xavier_block(d_model, heads, 4 * d_model, generator) for _ in range(depth)]
    return x, readout, blocks


def loss(order: str, x, readout, blocks) -> float:
    for block in blocks:
        x = pre_ln_layer(x, block)[0] if order == "pre-LN" else post_ln_layer(x, block)
    return float((standardise(x) * readout).sum() / len(x))


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_by_layer_are_those_of_finite_differences(order):
    found = through_depth(order, 2, **FEW)
    x, readout, blocks = stack(2, **FEW)
    step = 1e-6
    for number, block in enumerate(blocks):
        W, squares = block.mlp.W_out, 0.0
        for place in range(W.numel()):
            ends = []
            for sign in (1, -1):
                W.view(-1)[place] += sign * step
                ends.append(loss(order, x, readout, blocks))
                W.view(-1)[place] -= sign * step
            squares += ((ends[0] - ends[1]) / (2 * step)) ** 2
        assert float(found.gradient[number]) == pytest.approx(squares**0.5, rel=1e-5)
        assert squares > 1e-6


@pytest.mark.parametrize("order", ORDERS)
def test_likeness_is_the_cosine_between_input_and_output(order):
    x, _, (block,) = stack(1, **SIZES)
    y = ORDERS[order](x, block)
    cosines = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(x, y, strict=True)]
    found = through_depth(order, 1, **SIZES).likeness
    assert float(found[0]) == pytest.approx(sum(cosines) / len(cosines))


@pytest.mark.parametrize(("order", "cosine"), [("pre-LN", (5 / 7) ** 0.5), ("post-LN", 0.5)])
def test_random_steps_turn_a_stream_as_their_number_says(order, cosine):
    """Steps at right angles: of 7 in all 2 are the third layer's; post-LN halves what was there."""
    turned = turned_by_steps(order, 3, np.random.default_rng(0), d_model=4096, tokens=8)
    assert turned == pytest.approx(cosine, abs=0.01)
