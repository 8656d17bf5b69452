"""What the chapter on rotary models computes, by hand and by other ways."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import lnattn
from lnattn.paths import data_folder
from lnattn.storage import read_result
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
    assert chapter.without_rotation(model, [5, 900, 17, 5]) < 1e-9


def test_where_each_head_looks_by_distance_alone(study):
    table = chapter.near_by_distance(study)
    assert list(table.columns) == list(range(study.n_heads))
    powers = np.exp(study.by_distance.curve[3] - study.by_distance.curve[3].max())
    expected = [powers[1] / powers.sum(), powers[:10].sum() / powers.sum()]
    assert table[3].tolist() == pytest.approx(expected)


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


def test_an_interval_over_seeds_is_students():
    values = np.array([1.0, 2.0, 4.0])
    half = student.ppf(0.975, 2) * values.std(ddof=1) / np.sqrt(3)
    mean = values.mean()
    assert chapter.in_words(values) == f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"


def test_twins_are_compared_within_a_pair():
    twins = Twins.read(data_folder() / "results" / "twins")
    skill = [twins.of(kind, "skill")[:, 0, 0].max(axis=1) for kind in ("rotary", "causal")]
    loss = [twins.of(kind, "held out") for kind in ("rotary", "causal")]
    table = chapter.twin_differences({"few": twins, "again": twins}, (0.95, 0.975))
    assert list(table) == ["few (interval: 95 %)", "again (interval: 97.5 %)"]
    assert table.iloc[0].tolist() == [
        chapter.in_words(skill[0] - skill[1], level) for level in (0.95, 0.975)
    ]
    assert table.iloc[2, 0] == chapter.in_words(loss[0] - loss[1])
    assert chapter.twin_values(twins, "rotary").mean.shape == (5,)


def test_the_pages_sentences_hold_and_one_that_is_wrong_does_not(study):
    results = data_folder() / "results"
    studies = {"SmolLM2": study, "book-llama": RotaryStudy.read(results / "book-llama")}
    spectra = {
        label: read_result(results / name, "frequencies")[0]
        for label, name in (("SmolLM2", "smollm2-135m-q4"), ("book-llama", "book-llama"))
    }
    twins = {folder: Twins.read(results / folder) for folder in ("twins", "twins-8m")}
    scores = [torch.tensor(7.5), torch.tensor(7.5)]
    names = "by hand", "from Hugging Face's", "from six terms"
    apart = dict(zip(names, (1e-7, 1e-7, 1e-14), strict=True))
    given = scores, apart, studies, chapter.phases(spectra)
    checks = list(chapter.checks(*given, twins, (0.95, 0.975)))
    assert [check.message for check in checks if not check.holds] == []
    in_other_order = dict(reversed(twins.items()))
    others = chapter.checks(*given, in_other_order, (0.95, 0.975))
    failing = {check.words for check in others if not check.holds}
    assert "these pairs do not decide" in failing
    assert "pairs saw 4.2 million tokens, five more 8.4 million" in failing
