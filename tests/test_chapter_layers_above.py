"""What the companion on the layers above the first states, on made tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up import layers_that_find
from scipy.stats import binomtest

from lnattn_book.chapters import layers_above as chapter
from lnattn_book.figures import layers as figures
from lnattn_book.studies.layers_above import LayersAbove


@pytest.fixture
def tables() -> dict[str, LayersAbove]:
    """Two models: of two layers, and of three; each with sums and heads of its own."""
    two = layers_that_find(0.5, 0.1)
    three = layers_that_find(0.2, 0.05, 0.3)
    heads = np.array([[[1, 2, 5], [3, 0, 1], [0, 4, 4]]] * 2)
    far = np.array([[0.0, 4.0, 12.0], [0.0, 2.0, 8.0]])
    spread = np.array([[5.0, 6.0, 4.0], [7.0, 6.0, 4.0]])
    three = replace(three, heads=heads, far=far, spread=spread, far_other=2 * far + 1)
    return {"minilm": two, "a model": three}


def test_shares_of_pieces_stand_beside_chance(tables):
    joining = chapter.joining(tables)
    assert joining.index.to_list() == [
        ("minilm", 0), ("minilm", 1), ("a model", 0), ("a model", 1), ("a model", 2)
    ]  # fmt: skip
    assert joining.found.to_list() == [0.5, 0.1, 0.2, 0.05, 0.3]
    ends = binomtest(40, 400).proportion_ci(method="wilson")
    assert joining.loc[("minilm", 1), ["low", "high"]].to_list() == [ends.low, ends.high]
    drawn = tables["a model"].chance[0, 2]
    assert joining.chance["a model", 2] == pytest.approx(drawn.mean())
    between = (drawn >= joining["chance low"]["a model", 2]) & (
        drawn <= joining["chance high"]["a model", 2]
    )
    assert 0.94 < between.mean() < 0.98


def test_queries_as_they_are_are_left_out(tables):
    two = tables["minilm"]
    found = np.stack([two.found[0], np.zeros_like(two.found[0])])
    assert chapter.joining({"one": replace(two, found=found)}).found.to_list() == [0.5, 0.1]


def test_shares_of_the_variance_are_of_sums_over_windows(tables):
    shares = chapter.shares_alone({"a model": tables["a model"]})
    assert shares.own.to_list() == pytest.approx([1, 1 - 6 / 12, 1 - 20 / 8])
    assert shares["another's"].to_list() == pytest.approx([1 - 2 / 12, 1 - 14 / 12, 1 - 42 / 8])


def test_layers_above_leave_the_first_out(tables):
    above = chapter.above_first(chapter.joining(tables))
    assert above.index.to_list() == [("minilm", 1), ("a model", 1), ("a model", 2)]


def test_heads_find_their_share_of_what_is_found(tables):
    assert chapter.share_of_heads(tables["a model"], 0, (1, 2)) == 7 / 8
    assert chapter.share_of_heads(tables["a model"], 1, (1, 2)) == 1 / 4


def test_figures_name_models_and_layers_and_write_what_is_too_low(tables):
    (axes,) = figures.joined_by_layer(chapter.joining(tables)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "0", "1", "2"]
    assert {"MiniLM", "a model"} <= {text.get_text() for text in axes.texts}
    shares = chapter.shares_alone({"a model": tables["a model"]})
    shares.loc[("a model", 2), "own"] = figures.LEAST - 1.5
    (axes,) = figures.alone_by_layer(shares).axes
    assert "−3.5" in {text.get_text() for text in axes.texts}
    (own, _) = axes.lines[1:]
    assert own.get_ydata().tolist() == pytest.approx([1, 0.5, figures.LEAST])


def test_sets_are_means_over_their_seeds(tables):
    three = tables["a model"]
    other = replace(three, found=~three.found, far=3 * three.far)
    by_set = chapter.by_set({"both": [three, other]})
    assert by_set.index.to_list() == [("both", 0), ("both", 1), ("both", 2)]
    assert by_set.found.to_list() == pytest.approx([0.5] * 3)
    own = [1, 1 - (6 / 12 + 18 / 12) / 2, 1 - (20 / 8 + 60 / 8) / 2]
    assert by_set.own.to_list() == pytest.approx(own)
    assert by_set["another's"].to_list() == pytest.approx([1 - 2 / 12, 1 - 14 / 12, 1 - 42 / 8])
    chance = three.table()["chance, without their mean"].to_list()
    assert by_set.chance.to_list() == pytest.approx(chance)


def test_what_the_page_says_holds_of_the_frozen_models_and_not_of_swapped_ones() -> None:
    """With layers in reverse hardly a number of the page is left; what has no number may be."""
    tables = chapter.frozen_tables()
    sets = chapter.frozen_sets()
    deep = chapter.frozen("smollm2-135m-q4").table()
    asked = list(chapter.checks(tables, sets, chapter.records(tables, sets), deep, 0.51))
    assert [check.words for check in asked if not check.holds] == []

    turned = {name: _reversed(table) for name, table in tables.items()}
    turned_sets = {name: [_reversed(table) for table in alike] for name, alike in sets.items()}
    judged = chapter.records(turned, turned_sets)
    upside_down = deep.iloc[::-1].set_index(deep.index)
    asked = list(chapter.checks(turned, turned_sets, judged, upside_down, 0.4))
    holding = [check for check in asked if check.holds]
    assert len(asked) > 25
    assert len(holding) < 6, [check.words for check in holding]


def _reversed(table: LayersAbove) -> LayersAbove:
    """The last layer first."""
    return replace(
        table,
        found=table.found[:, ::-1],
        chance=table.chance[:, ::-1],
        heads=table.heads[:, ::-1],
        far=table.far[:, ::-1],
        far_other=table.far_other[:, ::-1],
        spread=table.spread[:, ::-1],
    )
