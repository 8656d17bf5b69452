"""What folding leaves out, and what an absurd bias moves (`lnattn_book.chapters.folding`)."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from random_models import random_layer

import lnattn
from lnattn_book.chapters import folding as chapter


@pytest.fixture
def x():
    return torch.randn(6, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_folding_leaves_out_one_number_a_row(x):
    """By hand: (β W_K + b_K) against the full query of the row."""
    layer = random_layer(5, 12, 3, 4)
    rest = chapter.left_over(layer, x, head=1)
    folded = lnattn.fold(layer)
    queries = folded.normalised(x) @ folded.W_Q[1] + folded.b_Q[1]
    expected = queries @ (layer.ln.beta @ layer.W_K[1] + layer.b_K[1])
    torch.testing.assert_close(rest, expected[:, None].expand(-1, 6))
    assert rest.abs().max() > 1


def test_the_key_bias_moves_nothing_and_the_query_bias_does(x):
    moved = chapter.moved_by_bias(random_layer(5, 12, 3, 4), x)
    assert moved["b_K"] < 1e-8
    assert moved["b_Q"] > 1e-2


def test_inputs_are_cut_to_the_context():
    model = lnattn.load_first_layer("book-gpt2")
    x = chapter.inputs_of(model, "word " * 2000)
    assert len(x) == model.embeddings.n_positions
    assert x.dtype == torch.float64


def test_of_the_query_bias_the_part_of_beta_remains():
    layer = random_layer(0, 8, 2, 4)
    model = Mock(attention=layer)
    beta_alone = torch.einsum("d,hdk->hk", layer.ln.beta, layer.W_Q)
    assert chapter.largest_query_bias(model) == pytest.approx(beta_alone.abs().max().item())
    assert chapter.largest_query_bias(lnattn.load_first_layer("book-llama")) == 0
