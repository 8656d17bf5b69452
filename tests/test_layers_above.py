"""Queries and keys of lone tokens in each layer, and the frozen tables that are made of them."""

from __future__ import annotations

from dataclasses import replace

import families
import numpy as np
import pytest
import torch
from made_up import layers_that_find
from naming import naming

import lnattn
from experiments.layers_above.lone_tokens import vectors_of_layers
from lnattn.affinity.by_distance import vectors_at_distance
from lnattn.attention.layernorm import layer_norm
from lnattn.errors import ResultError
from lnattn.models.modules import family_of_module
from lnattn.models.whole_gpt2 import assemble
from lnattn.rotary.fold import fold_relative
from lnattn.storage import write_result
from lnattn_book.studies.layers_above import LayersAbove


def test_queries_and_keys_of_a_layer_are_those_of_lone_tokens():
    model = families.make("gpt2", torch.float64)
    block = assemble(family_of_module(model)).blocks[1].attention
    context = lnattn.first_layer(model).embeddings.n_positions
    x = lnattn.context_free(model, 1, positions=(context // 3, 2 * context // 3))
    normed = layer_norm(x, block.ln)
    queries = torch.einsum("pnd,hdk->phnk", normed, block.W_Q).mean(dim=0) + block.b_Q[:, None]
    keys = torch.einsum("pnd,hdk->phnk", normed, block.W_K).mean(dim=0) + block.b_K[:, None]
    found = vectors_of_layers(model, [9, 4])[1]
    assert found.vectors.tokens.tolist() == [4, 9]
    torch.testing.assert_close(found.vectors.queries, queries[:, [4, 9]], rtol=0, atol=1e-10)
    torch.testing.assert_close(found.vectors.keys, keys, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.mean_query, queries.mean(dim=1), rtol=0, atol=1e-10)
    centred = queries[:, [4, 9]] - queries.mean(dim=1, keepdim=True)
    torch.testing.assert_close(found.centred.queries, centred, rtol=0, atol=1e-10)


def test_a_rotary_key_stands_just_before_its_query(monkeypatch):
    config = families.config_of("llama-default")
    families.in_double_precision(config, monkeypatch)
    model = families.make(config)
    first = lnattn.first_layer(model)
    expected = vectors_at_distance(fold_relative(first.attention), first.embeddings, 1)
    found = vectors_of_layers(model, [4, 9])[0].centred
    scores = torch.einsum("hqd,hkd->hqk", found.queries, found.keys_per_head)
    keys = expected.keys_per_head
    without_mean_key = torch.einsum("hqd,hkd->hqk", expected.queries[:, [4, 9]], keys)
    difference = scores - without_mean_key  # what the mean key adds: one number a query
    assert difference.std(dim=2).max() < 1e-7
    assert scores.std(dim=2).min() > 1e-3


def test_tables_are_read_as_they_were_frozen(tmp_path):
    tables = layers_that_find(0.1, 0.4)
    tables.write(tmp_path, "tiny")
    again = LayersAbove.read(tmp_path, "tiny")
    assert again.table().equals(tables.table())
    assert again.table()["found, as they are"].tolist() == [0.1, 0.4]
    assert again.table()["alone"].tolist() == [0.0, 0.0]  # as far as the mean vector


def test_distances_of_all_windows_are_summed_before_they_are_divided():
    """1 − (1 + 3)/(2 + 4), not the mean of 1 − 1/2 and 1 − 3/4."""
    two_windows = replace(
        layers_that_find(0.1),
        far=np.array([[1.0], [3.0]]),
        far_other=np.array([[2.0], [7.0]]),
        spread=np.array([[2.0], [4.0]]),
    )
    assert two_windows.table()["alone"].tolist() == pytest.approx([1 / 3], rel=1e-12)
    assert two_windows.table()["another token's"].tolist() == pytest.approx([-0.5], rel=1e-12)


def test_other_tables_are_refused(tmp_path):
    write_result(tmp_path, "tiny", {"far": np.ones((3, 5))}, {})
    with pytest.raises(ResultError, match=naming("tiny.npz")):
        LayersAbove.read(tmp_path, "tiny")
