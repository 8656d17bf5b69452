"""What the chapter on unselectable keys computes, by hand and by other ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lnattn.paths import data_folder
from lnattn.selectability import gaussian
from lnattn.selectability.decide import selectability
from lnattn_book.chapters import unselectable as chapter
from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import FrozenArm, frozen_arms
from lnattn_book.studies.random_keys import random_grid

# ---- The walk ------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3])
def test_the_walk_on_the_page_agrees_with_the_package(d):
    keys = np.random.default_rng(d).normal(size=(14, d))
    right = selectability(keys).selectable
    others_of = [np.delete(keys, i, 0) for i in range(len(keys))]
    queries = [key - chapter.nearest_point(key, others_of[i]) for i, key in enumerate(keys)]
    walked = [
        bool(queries[i] @ key > (others_of[i] @ queries[i]).max() + 1e-9)
        for i, key in enumerate(keys)
    ]
    assert walked == right.tolist()
    assert 0 < sum(walked) < len(keys)


def test_the_nearest_point_of_a_segment_is_the_foot_of_the_perpendicular():
    others = np.array([[0.0, 0.0], [4.0, 0.0]])
    np.testing.assert_allclose(chapter.nearest_point(np.array([1.0, 3.0]), others), [1, 0])
    np.testing.assert_allclose(chapter.nearest_point(np.array([9.0, 3.0]), others), [4, 0])


def test_the_examples_are_those_whose_proofs_are_seen_best():
    keys = np.array([[0, 0], [4, 0], [0, 4], [1.3, 1.3], [0.1, 0.1]])
    inside, corner = chapter.two_examples(selectability(keys))
    assert inside == 3  # weights near a third each; the other lies beside a corner
    assert corner in (1, 2)


# ---- Small models --------------------------------------------------------------------------------


def arm(name: str, d: int, seed: int, base: float, steps: int = 320) -> FrozenArm:
    """Shares [layer place window] that are base + layer/100 + place/10 + window/1000."""
    layer, place, window = np.ogrid[:4, :6, :12]
    exact = base + layer / 100 + place / 10 + window / 1000
    plan: dict[str, Any] = {"d_model": d, "seed": seed, "steps": steps}
    return FrozenArm(f"{name}-d{d}", {"exact": exact}, {"arm": name, "plan": plan})


def test_shares_are_means_over_windows_and_heads():
    arms = [arm("no-scaling", 8, 0, 0.1), arm("no-scaling", 8, 1, 0.2), arm("full", 8, 0, 0.0)]
    window = np.arange(12).mean() / 1000
    layers = chapter.shares_by_layer(arms, "no-scaling", "in the layer")
    np.testing.assert_allclose(layers[1], 0.2 + np.arange(4) / 100 + 0.1 + window)
    heads = chapter.shares_by_layer(arms, "no-scaling", "in the heads")
    np.testing.assert_allclose(heads[0], 0.1 + np.arange(4) / 100 + 0.35 + window)
    table = chapter.table_1(arms, {"full": "LayerNorm", "no-scaling": "without scaling"})
    expected = 100 * (0.15 + 0.02 + 0.1 + window)
    assert table.loc["without scaling", "layer 3"] == pytest.approx(expected)
    assert table.loc["without scaling, reported"].tolist() == [51.0, 32.2, 34.7, 36.8]


def test_longer_runs_are_left_to_the_appendix():
    short, long = arm("full", 8, 0, 0.1), arm("full", 8, 0, 0.1, steps=321)
    assert chapter.short_runs([short, long]) == [short]


def test_what_is_left_at_a_width_is_a_ratio_of_windows():
    arms = [arm("no-scaling", 8, 0, 0.2), arm("no-scaling", 64, 0, 0.0)]
    left = chapter.left_at_width(arms, "in the layer")
    over = 0.1 + 0.015 + np.arange(12) / 1000
    assert left.value == pytest.approx(over.sum() / (over + 0.2).sum())
    draws = np.random.default_rng(3).integers(12, size=(20_000, 12))
    ratios = over[draws].sum(axis=1) / (over + 0.2)[draws].sum(axis=1)
    np.testing.assert_allclose(
        [left.low, left.high], np.quantile(ratios, [0.025, 0.975]), atol=5e-4
    )


def test_the_query_0_attends_evenly():
    assert chapter.unevenness(np.random.default_rng(0).normal(size=(60, 8))) < 1e-15


def test_widths_are_rows():
    arms = [arm(name, d, 0, 0.0) for name in ("full", "no-scaling") for d in (8, 32)]
    table = chapter.by_width(arms)
    assert table.index.tolist() == [(8, 2), (32, 8)]
    expected = 100 * (0.015 + 0.35 + 0.0055)
    assert table.loc[(32, 8), "in the heads, LayerNorm"] == pytest.approx(expected)


def test_the_largest_share_with_scaling_is_of_either_arm():
    arms = [
        arm("full", 8, 0, 0.0),
        arm("no-projection", 8, 0, 0.05),
        arm("no-projection", 64, 0, 0.3),
        arm("no-scaling", 8, 0, 0.4),
    ]
    assert chapter.largest_with_scaling(arms) == pytest.approx(0.05 + 0.03 + 0.1 + 0.0055)


def test_a_null_model_has_the_mean_share_of_its_draws():
    draws = [{"share": Interval(share, 0.0, 1.0)} for share in (0.2, 0.3, 0.7)]
    assert chapter.mean_share(draws) == pytest.approx(0.4)


def test_lost_keys_are_those_in_all_dimensions():
    unselectable = np.zeros((2, 3, 2, 4, 5), dtype=bool)  # [kept layer head window position]
    unselectable[0, [0, 2], 1, 3, 4] = True
    unselectable[1] = True
    layers = LayerVerdicts(
        unselectable, np.zeros((3, 2, 4), dtype=int), np.zeros((2, 3, 3, 2, 4)), {}
    )
    assert chapter.lost_keys(layers) == 2


def test_a_projection_takes_one_dimension():
    share = chapter.share_of_gaussian_keys(900, 8)
    assert share == gaussian.expected_share(900, 7)
    assert share > chapter.share_of_gaussian_keys(900, 8, projected=False)


# ---- The page ------------------------------------------------------------------------------------


def test_the_pages_sentences_hold_and_fail_of_other_numbers():
    results = data_folder() / "results"
    arms = chapter.short_runs(frozen_arms(results / "selectability"))
    shares = chapter.beside_what_learnt_nothing(arms)
    bare, scaled = random_grid(), random_grid(layer_norm=True)
    rest = {"walked": np.array([True, True]), "proved": 2}
    lost = chapter.lost_in_all_layers(results, ["minilm"])
    asked = chapter.checks(arms, shares, bare=bare, scaled=scaled, lost=lost, **rest)
    assert [check.words for check in asked if not check.holds] == []
    learnt = shares | {"the same before training": 0.1}
    asked = chapter.checks(arms, learnt, bare=bare, scaled=bare, lost={"minilm": 3}, **rest)
    failing = [check.words for check in asked if not check.holds]
    assert len(failing) == 5
    assert "before any training lose more than after it" in failing
    assert "After LayerNorm no key of the whole grid is unselectable" in failing


def test_lost_by_number_leaves_out_what_was_not_asked():
    law = {"n": np.array([[1, 2], [32, 0]]), "share": np.zeros((2, 3, 2))}
    lost = chapter.lost_by_number(law, {"sets": ["other", "of these"]}, "of these")
    np.testing.assert_array_equal(lost, [[0, np.nan]] * 3)
