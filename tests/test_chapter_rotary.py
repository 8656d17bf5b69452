"""What the chapter on rotary models computes, by hand and by other ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import lnattn
from lnattn.paths import data_folder
from lnattn_book.chapters import rotary as chapter
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.twins import Twins


@pytest.fixture(scope="module")
def llama():
    return lnattn.load_first_layer("book-llama").to(torch.float64)


@pytest.fixture(scope="module")
def study():
    return RotaryStudy.read(data_folder() / "results" / "smollm2-135m-q4")


def test_turning_by_hand_is_the_layers_rotation(llama):
    folded = lnattn.fold_relative(llama.attention)
    theta = chapter.angles(folded)
    rows = llama.embeddings.rows(torch.tensor([17, 300]))
    query = folded.queries(rows)[2, 0]
    right = folded.rotated(folded.queries(rows), torch.tensor([9, 9]))[2, 0]
    np.testing.assert_allclose(chapter.turned(query, 9, theta), right, atol=1e-5)
    assert not np.allclose(chapter.turned(query, 8, theta), right, atol=1e-2)


def test_only_the_difference_of_positions_counts():
    theta = torch.tensor([1.0, 0.1], dtype=torch.float64)
    query, key = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    near = chapter.turned(query, 5, theta) @ chapter.turned(key, 3, theta)
    far = chapter.turned(query, 95, theta) @ chapter.turned(key, 93, theta)
    other = chapter.turned(query, 95, theta) @ chapter.turned(key, 92, theta)
    assert near == pytest.approx(far)
    assert near != pytest.approx(other)


def test_without_rotation_four_terms_are_six():
    model = lnattn.load_first_layer("book-gpt2")
    largest = chapter.without_rotation(model, [5, 900, 17, 5])
    assert set(largest) == {"pairs", "keys", "constant"}
    assert max(largest.values()) < 1e-9


def test_a_row_a_head(study):
    table = chapter.by_head(study)
    assert len(table) == study.n_heads
    np.testing.assert_allclose(table.iloc[:, :4].sum(axis=1), 1, atol=1e-6)
    powers = np.exp(study.by_distance.curve[3] - study.by_distance.curve[3].max())
    assert table["on the token before"][3] == pytest.approx(powers[1] / powers.sum())
    assert table["on the nearest ten"][3] == pytest.approx(powers[:10].sum() / powers.sum())


def test_the_leading_term_is_the_one_with_the_largest_share(study):
    share = study.by_distance.share.copy()
    share[:, 0] = 0.1, 0.2, 0.3, 0.4
    share[:, 8] = 0.6, 0.1, 0.2, 0.1
    by_distance = replace(study.by_distance, share=share)
    leading = chapter.leading_terms(replace(study, by_distance=by_distance))
    assert (leading[0], leading[8]) == ("d", "ee")


def test_phases_by_hand():
    frequencies = {
        "peak": np.array([0, 1]),
        "theta": np.array([1.0, 0.01]),
        "amplitude": np.array([[1.0, 1.0], [1.0, 3.0]]),
        "phase": np.array([[0.0, 0.0], [-1.0, np.pi - 0.01]]),  # the fast one meets, the slow not
    }
    table = chapter.phases({"made": frequencies})
    assert table.index.tolist() == [("made", 1)]
    row = table.loc[("made", 1)]
    assert row["slow"] == pytest.approx(0.75)
    assert row["fast ones reach"] == pytest.approx(1)
    assert row["all reach"] == pytest.approx(0.25 - 0.75)


def test_skills_of_two_models(study):
    table = chapter.skills({"SmolLM2": study})
    mean, low, high = study.grid.interval().T
    row = table.loc["SmolLM2"]
    assert row["best head"] == mean.argmax()
    assert row["its skill (AUROC)"] == f"{mean.max():.3f} [{low[7]:.3f}, {high[7]:.3f}]"
    wrong_is_better = study.chance_ranks.min(axis=1) < study.pair_ranks.min(axis=1)
    assert row["names whose wrong word ranks better"] == wrong_is_better.sum()


def test_an_interval_over_seeds_is_students():
    values = np.array([1.0, 2.0, 4.0])
    half = student.ppf(0.975, 2) * values.std(ddof=1) / np.sqrt(3)
    mean = values.mean()
    assert chapter.in_words(values) == f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"


def test_twins_are_compared_within_a_pair():
    twins = Twins.read(data_folder() / "results" / "twins")
    skill = [twins.of(kind, "skill")[:, 0, 0].max(axis=1) for kind in ("rotary", "causal")]
    table = chapter.twin_table(twins)
    difference = chapter.in_words(skill[0] - skill[1])
    assert table.loc["skill of the best head (AUROC)", "rotary − learned"] == difference
    assert chapter.twin_values(twins, "rotary")["variance of scores from both tokens"].shape == (5,)
