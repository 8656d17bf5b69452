"""The numbers of chapter 10, on made arrays of which they are known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lnattn.paths import data_folder
from lnattn.storage import read_result
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


def test_gradients_are_a_row_a_matrix():
    seen = {("tokens", -1): 0.5, ("FFN", 1): 0.0}
    table = chapter.gradients_along_1(seen, dict.fromkeys(seen, 1.0))
    assert list(table.index) == ["tokens", "FFN, layer 1"]
    assert table["every reader centres"].tolist() == [0.5, 0.0]


# ---- The page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked():
    """What the page asks of the frozen runs, with gradients made up."""
    results = data_folder() / "results"
    folders = {"GPT-2": "gpt2", "MiniLM": "minilm", "SmolLM2": "smollm2-135m-q4"}
    folders |= {name: name for name in ("book-gpt2", "book-llama")}
    folders["widths 8 to 64"] = "selectability"
    tables = {name: chapter.written(results, folder) for name, folder in folders.items()}
    arms, record = read_result(results / "nobody-reads-one", "nobody-reads-one")
    end = chapter.end_of_training(arms)
    return {
        "tables": tables,
        "centred": {("tokens", -1): 0.04, ("FFN", 0): 1e-17},
        "uncentred": {("tokens", -1): 0.02, ("FFN", 0): 0.1},
        "end": end,
        "at_end": chapter.along_the_removed(end, record["norms"], record["optimisers"]),
        "first": arms["first"].mean(axis=1),
        "steps": chapter.spill_of_steps(arms, record["optimisers"]),
    }


def failing(**asked):
    return [check.words for check in chapter.checks(**asked) if not check.holds]


def test_the_pages_sentences_hold(asked):
    assert failing(**asked) == []


def test_they_fail_where_models_are_taken_for_one_another(asked):
    tables = asked["tables"]
    swapped = tables | {"book-gpt2": tables["book-llama"], "book-llama": tables["book-gpt2"]}
    assert "every one lies below chance" in failing(**asked | {"tables": swapped})


def test_they_fail_where_a_reader_sees_1(asked):
    shown = failing(**asked | {"centred": asked["uncentred"]})
    assert shown == [
        "Zero, to rounding, in every matrix but one",
        "no gradient corrects what pure writers put",
    ]


def test_they_fail_where_the_norms_change_places(asked):
    shown = failing(**asked | {"end": asked["end"][::-1]})
    assert shown == ["is the one that is avoided, in every seed"]


def test_a_late_step_is_a_median_of_the_last_and_the_sums_are_means():
    """Three seeds and two matrices, one of them an outlier, in the second optimiser."""
    step = np.zeros((1, 2, 3, 4, 2, 2))
    step[:, :, :, :-1] = 77  # earlier steps
    step[..., 1] = 55  # the other direction
    step[0, 1, :, -1, :, 0] = [[0.1, 0.2], [0.3, 0.4], [0.5, 9.0]]
    moved, kept = step / 10, step / 100
    moved[0, 1, 0, -1, 0, 0] = np.nan
    table = chapter.spill_of_steps({"step": step, "moved": moved, "kept": kept}, ["SGD", "Adam"])
    late, sums, drawn = table["Adam"]
    assert table["SGD"].tolist() == [0, 0, 0]
    assert late == pytest.approx(0.35)
    assert sums == pytest.approx((0.02 + 0.03 + 0.04 + 0.05 + 0.9) / 5)
    assert drawn == pytest.approx(10.5 / 600)
