"""Cost formulas against what torch executes; the claims on growth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lnattn_book.studies.costs.formulas import (
    PRODUCTS,
    LayerSize,
    layer_parameters,
    least_bytes,
    product_costs,
)
from lnattn_book.studies.costs.profiling import (
    formula_and_count,
    profile_layer,
    random_block,
)


@settings(max_examples=25, deadline=None)
@given(
    queries=st.integers(1, 9),
    before=st.integers(0, 9),
    heads=st.integers(1, 4),
    d_head=st.integers(1, 5),
    d_mlp=st.integers(1, 17),
)
def test_formulas_equal_what_is_executed(queries, before, heads, d_head, d_mlp):
    size = LayerSize(queries, queries + before, heads * d_head, heads, d_mlp)
    table = formula_and_count(size)
    assert list(table.index) == list(PRODUCTS)
    assert (table["operations"] == table["counted_operations"]).all()
    assert (table["bytes"] == table["counted_bytes"]).all()


def test_a_hand_counted_layer():
    table = product_costs(LayerSize(queries=2, keys=3, d_model=4, heads=2, d_mlp=5))
    assert table.loc["W_Q", "operations"] == 2 * 2 * 4 * 4
    assert table.loc["scores", "operations"] == 2 * 2 * 3 * 4
    assert table.loc["W_out", "operations"] == 2 * 2 * 4 * 5
    assert table.loc["W_Q", "bytes"] == 4 * (16 + 8 + 8)
    assert table.loc["scores", "bytes"] == 4 * (8 + 12 + 2 * 2 * 3)
    assert table.loc["W_in", "weight_bytes"] == 4 * 20
    # Four d × d maps, two d × f maps, one cached token's key and value, two inputs, two outputs.
    assert least_bytes(LayerSize(2, 3, 4, 2, 5)) == 4 * (64 + 40 + 8 + 16)


def parameters_of(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@settings(max_examples=20, deadline=None)
@given(heads=st.integers(1, 3), d_head=st.integers(1, 4), d_mlp=st.integers(1, 17))
def test_parameters_of_a_layer(heads, d_head, d_mlp):
    d = heads * d_head
    encoder = torch.nn.TransformerEncoderLayer(d, heads, d_mlp)
    assert layer_parameters(d, d_mlp) == parameters_of(encoder)
    decoder = torch.nn.TransformerDecoderLayer(d, heads, d_mlp)
    assert layer_parameters(d, d_mlp, attentions=2, norms=3) == parameters_of(decoder)


def growth(parts, vary):
    """Exponents of the counted operations of some parts, one size doubled twice."""
    base = {"queries": 32, "d_model": 32, "heads": 4}
    values, operations = [], []
    for factor in (1, 2, 4):
        sizes = {**base, vary: factor * base[vary]}
        table = profile_layer(
            random_block(sizes["d_model"], sizes["heads"], 4 * sizes["d_model"]),
            torch.zeros(sizes["queries"], sizes["d_model"]),
        )
        values.append(sizes[vary])
        operations.append(table.loc[parts, "operations"].sum())
    return np.polyfit(np.log(values), np.log(operations), 1)[0]


def test_products_with_the_attention_matrix_do_not_grow_with_the_number_of_heads():
    """M4: O(H D N²) as written; at fixed D it is O(D N²) over all heads together."""
    parts = ["scores", "values"]
    assert growth(parts, "queries") == pytest.approx(2)
    assert growth(parts, "d_model") == pytest.approx(1)
    assert growth(parts, "heads") == pytest.approx(0, abs=1e-12)


def test_ffn_grows_as_the_notes_say():
    """M5: O(N D²), with the hidden layer in proportion to D."""
    parts = ["W_in", "W_out"]
    assert growth(parts, "queries") == pytest.approx(1)
    assert growth(parts, "d_model") == pytest.approx(2)
