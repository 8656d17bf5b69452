"""What the chapter on one layer computes (`lnattn_book.chapters.layer`), by hand."""

from __future__ import annotations

import math

import pytest
import torch

from lnattn.attention.forward import causal_mask
from lnattn.models.reference import load_reference_model
from lnattn.models.whole_gpt2 import load_transformer
from lnattn_book.chapters import layer as chapter


def test_a_map_over_the_sequence_lets_a_later_token_move_an_earlier_query():
    moved = chapter.moved_by_another_token()
    assert moved.over_sequence > 0.1
    assert moved.over_features == 0


def test_products_spread_as_the_root_of_the_width():
    powers = chapter.growth_of_products([4, 16, 64, 256])
    assert powers["before"] == pytest.approx(0.5, abs=0.05)
    assert powers["after"] == pytest.approx(0.0, abs=0.05)


def test_sums_of_weights_by_hand():
    weights = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    assert chapter.sums_of(weights) == (0.0, 0.25)
    assert chapter.asymmetry(torch.tensor([[1.0, 2.0], [2.0, 0.0]])) == 0
    assert chapter.asymmetry(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])) == pytest.approx(2.0)


def test_weights_of_one_map_are_not_symmetric_although_scores_are():
    """Two tokens, of scores 1, 0 and 4: one row divides by e + 1, the other by e⁴ + 1."""
    Q = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    K = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    found = chapter.asymmetries(Q, K, scale=1.0)
    first = 1 / (math.e + 1)  # what each gives the other
    second = 1 / (math.e**4 + 1)
    norm = math.hypot(first, 1 - first, second, 1 - second)
    assert found["one map"] == 0
    assert found["two maps"] == pytest.approx(math.sqrt(2))
    assert found["one map, softmax"] == pytest.approx(math.sqrt(2) * (first - second) / norm)


def test_the_mask_of_the_notes_is_causal_by_one_reading_only():
    i, j = torch.arange(4)[:, None], torch.arange(4)
    assert chapter.readings_of(i <= j) == (False, True)
    assert chapter.readings_of(causal_mask(4, 4)) == (True, False)


def test_three_orders_are_other_peoples_layers(monkeypatch):
    model, reference = load_transformer("book-gpt2"), load_reference_model("book-gpt2")
    ids = torch.tensor([3, 77, 400, 5])
    assert max(chapter.layer_errors(model, reference, ids)) < 1e-10
    monkeypatch.setattr(chapter, "both_ln_layer", lambda x, block, after: x)
    assert chapter.layer_errors(model, reference, ids).both > 1e-2


def test_stacks_are_summarised_by_depth_and_order():
    stacks = chapter.random_stacks((2, 3), seeds=2)
    table = stacks.last_gradients()
    assert list(table.index) == ["pre-LN", "post-LN"]
    assert list(table.columns) == ["2 layers", "3 layers"]
    expected = sorted(float(one.gradient[-1]) for one in stacks.of[3]["post-LN"])
    assert table.loc["post-LN", "3 layers"] == pytest.approx(sum(expected) / 2)
    assert stacks.unevenness(3)["pre-LN"].value >= 1
    assert 0 < stacks.likeness(3, "pre-LN") <= 1
    behaviour = stacks.behaviour()
    assert behaviour[f"3 layers, {chapter.ALIKE}"]["post-LN"] == stacks.likeness(3, "post-LN")
    uneven = stacks.unevenness(3)["pre-LN"].value
    assert behaviour[f"3 layers, {chapter.UNEVEN}"]["pre-LN"] == uneven


def test_one_feature_moves_all_others():
    assert chapter.moved_features() > 0.1
