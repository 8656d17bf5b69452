"""What the chapter on circuits computes (`lnattn_book.chapters.circuits`)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from naming import naming
from random_models import random_layer

from lnattn.attention.circuits import Composition, model_composition
from lnattn.composition import (
    CompositionStudy,
    exceedances,
    pair_table,
    study_composition,
)
from lnattn.errors import ResultError
from lnattn.models.choice import Choice
from lnattn.models.whole_gpt2 import load_transformer
from lnattn.paths import data_folder
from lnattn_book.chapters import circuits as chapter
from lnattn_book.chapters.whole import load_whole


def layers(count: int):
    return [random_layer(seed, 12, 3, 4) for seed in range(count)]


def test_two_circuits_are_the_block_and_a_missing_bias_shows():
    (layer,) = layers(1)
    x = torch.randn(6, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    errors = chapter.circuit_errors(layer, x)
    assert max(errors.attention, errors.output) < 1e-12
    assert errors.without_bias > 1e-3


def test_usable_pairs_are_counted_against_impossible_ones_by_layers():
    composition = model_composition(layers(4), impossible=True)
    table = chapter.usable_and_impossible(composition, [0.1, 0.5], draws=400)
    usable, impossible = exceedances(composition, 0.5)[1].sum(axis=-1)
    row = table.set_index(["kind", "share"]).loc[("K", 0.5)]
    assert (row["usable"], row["impossible"]) == (usable, impossible)
    assert row["ratio"] == pytest.approx(usable / impossible)
    assert row["low"] <= row["ratio"] <= row["high"]


def test_an_effect_of_one_layer_has_a_wide_interval():
    """Usable pairs score high only where layer 0 writes: drawn without it, nothing is left."""
    scores = torch.full((3, 6, 2, 6, 2), 0.1)
    scores += 0.01 * torch.rand(scores.shape, generator=torch.Generator().manual_seed(1))
    scores[:, 0, :, 1:, :] += 1.0
    flat = torch.ones(6, 2, 4) / 4
    composition = Composition(scores, flat, torch.stack([flat] * 3), 12)
    row = chapter.usable_and_impossible(composition, [0.25], draws=500).iloc[0]
    assert row["ratio"] > 1.5
    assert row["low"] < 1.2


def test_a_model_of_one_layer_is_told_why():
    with pytest.raises(ResultError, match="one layer"):
        chapter.usable_and_impossible(model_composition(layers(1), impossible=True), [0.1])
    alone = study_composition(layers(1), torch.randn(8, 12).double(), {"name": "tiny"})
    with pytest.raises(ResultError, match=naming("tiny", "one layer")):
        chapter.strongest_pairs(alone)


def test_strongest_pairs_are_of_later_readers():
    study = study_composition(layers(3), torch.randn(8, 12).double(), {"name": "tiny"})
    table = chapter.strongest_pairs(study, count=2)
    assert [*table["kind"]] == ["K", "K", "Q", "Q", "V", "V"]
    assert (table["reader"].str[0].astype(int) > table["writer"].str[0].astype(int)).all()


def test_paths_add_up_and_leaving_out_nothing_costs_nothing():
    two = load_transformer("book-gpt2")
    ids = [3, 77, 400, 5]
    errors = chapter.path_errors(two, ids)
    assert max(errors) < 1e-10
    losses = chapter.path_losses(two, [ids], {"nothing": (), "FFNs": ("FFNs",)})
    nothing, ffns = losses.rises()
    assert nothing == 0
    assert abs(ffns) > 0.1
    assert losses.tokens.tolist() == [3]


def test_logits_are_the_sum_of_parts():
    errors = chapter.sum_errors(load_transformer("book-gpt2"), "book-gpt2", [3, 77, 400])
    assert errors[torch.float64] < 1e-10
    assert errors[torch.float32] < 1e-4


def test_a_page_that_needs_a_whole_model_takes_the_books_and_says_why(capsys):
    whole, first, name = load_whole(Choice("minilm", "a test"))
    assert (whole.n_layers, first.name, name) == (2, "book-gpt2", "book-gpt2")
    assert "this page uses book-gpt2" in capsys.readouterr().out


def test_a_folder_is_loaded_by_its_path_and_not_by_its_last_name(tmp_path):
    folder = tmp_path / "made"
    folder.symlink_to(data_folder() / "book-gpt2")
    _, first, name = load_whole(Choice(str(folder), "a test"))
    assert first.name != name == str(folder)


def test_random_heads_stand_out_from_random_rotations_no_more_than_chance():
    heads = layers(3)
    composition = model_composition(heads, impossible=True)
    assert chapter.beyond_rotations(composition, "K") < 0.2
    assert chapter.beyond_rotations(composition, "K", z=-100.0) == 1


def failing(checks) -> list[str]:
    return [check.words for check in checks if not check.holds]


def test_what_the_page_says_of_gpt2s_pairs_holds_of_them_and_not_of_shuffled_scores():
    study = CompositionStudy.read(data_folder() / "results" / "gpt2")
    usable = pair_table(study.raw, "K").query("possible").set_index(["writer", "reader"])
    counted = chapter.usable_and_impossible(study.raw, [0.01, 0.1])
    stand_out = {"K": 0.599, "Q": 0.594, "V": 0.233}
    asked = usable, counted, stand_out, study.previous_token
    assert failing(chapter.checks_of_scores(*asked)) == []

    shuffled = usable.assign(special=usable["special"].to_numpy()[::-1], score=0.036)
    alike = counted.assign(ratio=1.0, low=0.9, high=1.1)
    none = dict.fromkeys(stand_out, 0.4)
    asked = shuffled, alike, none, torch.full_like(study.previous_token, 0.3)
    left = {"for GPT-2 0.036", "for values there are as many of either kind"}
    said = [check.words for check in chapter.checks_of_scores(*asked)]
    assert set(said) - set(failing(chapter.checks_of_scores(*asked))) == left


def test_what_the_page_says_of_sums_needs_exact_ones_and_these_losses():
    exact = chapter.CircuitErrors(attention=1e-15, without_bias=0.27, output=1e-15)
    sums = np.array([[4.0, 4.0084, 4.005, 7.1825, 5.0437]])
    losses = chapter.PathLosses(sums, np.array([1.0]))
    of_sum = {torch.float32: 1e-6, torch.float64: 1e-15}
    undecided = SimpleNamespace(verdict="undecided")
    paths = chapter.PathErrors(1e-15, 1e-15)
    assert failing(chapter.checks_of_sums(exact, of_sum, losses, paths, undecided)) == []

    off = chapter.CircuitErrors(attention=1e-3, without_bias=0.0, output=1e-15)
    moved = chapter.PathLosses(sums * [1, 1.01, 1, 1.01, 1.02], losses.tokens)
    wrong = {torch.float64: 1e-6}
    apart = chapter.PathErrors(1e-15, 1e-6)
    decided = SimpleNamespace(verdict="holds")
    asked = off, wrong, moved, apart, decided
    assert len(failing(chapter.checks_of_sums(*asked))) == len([*chapter.checks_of_sums(*asked)])
