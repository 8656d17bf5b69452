"""The numbers of chapter 10, on made arrays of which they are known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from lnattn.storage import write_result
from lnattn_book.chapters import unread as chapter


def test_the_geometric_mean_of_a_ninth_and_nine_is_one():
    assert chapter.geometric_mean(np.array([1 / 9, 9.0])) == pytest.approx(1)
    assert chapter.geometric_mean(np.array([[1.0, 4.0], [9.0, 1.0]]), axis=1) == pytest.approx(
        [2, 3]
    )


def test_only_what_only_writes_counts():
    table = pd.DataFrame(
        {"only_writes": [True, True, False], "along": [0.1, 0.9, 0.0], "low": [0.8] * 3}
    )
    row = chapter.by_model({"made": table}).loc["made"]
    assert row.to_dict() == pytest.approx({"matrices": 2, "mean": 0.3, "share below": 0.5})


def made_arms():
    """Two seeds, two marks, two matrices; energies at the end: norm + 1 times (direction + 1)."""
    weight = np.ones((3, 3, 2, 2, 2, 2))
    for norm in range(3):
        for u in range(2):
            weight[norm, :, :, -1, :, u] = (norm + 1) * (u + 1)
    return {"weight": weight}


def test_the_end_is_the_last_mark_averaged_over_matrices():
    end = chapter.end_of_training(made_arms())
    assert end.shape == (3, 3, 2, 2)
    np.testing.assert_allclose(end[1, :, :, 1], 4)
    table = chapter.along_the_removed(
        end, ["LayerNorm", "RMSNorm", "removes n"], ["SGD", "Adam", "AdamW"]
    )
    assert table["Adam"].tolist() == pytest.approx([1, 6, 3, 2])  # 1·1, 3·2, 3·1, 2·1


def test_steps_are_those_of_layernorm_along_1_at_the_last_mark():
    shape = (3, 3, 2, 2, 2, 2)
    arms = {name: np.zeros(shape) for name in ("step", "moved", "kept")}
    arms["step"][0, 1, :, -1, :, 0] = [[0.1, 0.2], [0.3, 0.4]]
    arms["moved"][0, 1, :, -1, :, 0] = [[0.1, 0.2], [0.3, 1.0]]
    arms["kept"][0, 1, :, -1] = 0.5
    table = chapter.spill_of_steps(arms, ["SGD", "Adam", "AdamW"])
    assert table["Adam"].tolist() == pytest.approx([0.25, 0.4, 0.5])
    assert table["SGD"].tolist() == [0, 0, 0]


def test_one_number_for_sigma(tmp_path):
    arrays = {
        "kl": np.array([1.0, 3.0]),
        "kl_but_first": np.array([0.1, 0.3]),
        "auroc": np.array([[0.5, 0.7], [0.52, 0.69]]),
    }
    write_result(tmp_path / "made", "sigma", arrays, {"first": 0.5, "sigma": 0.2})
    row = chapter.one_number_for_sigma(tmp_path, ["made"]).loc["made"]
    assert row.tolist() == pytest.approx([2.5, 0.9, 0.02])


def norm_and_reader(d: int = 6, m: int = 3) -> tuple[torch.nn.LayerNorm, torch.nn.Linear]:
    torch.manual_seed(0)
    norm, reader = torch.nn.LayerNorm(d).double(), torch.nn.Linear(m, d).double()
    torch.nn.init.uniform_(norm.weight, 0.5, 2)
    torch.nn.init.normal_(norm.bias)
    reader.bias = torch.nn.Parameter(torch.randn(m).double())  # its matrix is [d m], as in GPT-2
    return norm, reader


def test_a_reader_behind_a_norm_that_centres_is_blind_along_the_inverse_gain():
    norm, reader = norm_and_reader()
    moved = chapter.moved_by(torch.outer(1 / norm.weight, torch.randn(3).double()), norm, reader)
    assert moved["LayerNorm"] < 1e-10
    assert moved["RMSNorm"] > 0.1


def test_along_the_gain_itself_it_is_not():
    norm, reader = norm_and_reader()
    moved = chapter.moved_by(torch.outer(norm.weight, torch.ones(3).double()), norm, reader)
    assert min(moved.values()) > 0.1


def test_one_direction_of_its_inputs_does_not_vary():
    assert chapter.unread_inputs(norm_and_reader()[0]) == 1
