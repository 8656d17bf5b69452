"""LayerNorm as projection and scaling (`lnattn_book.chapters.layernorm`), by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import lnattn
from lnattn_book.chapters import layernorm as chapter


def test_the_forms_agree_and_a_wrong_one_would_show(monkeypatch):
    forms = chapter.compare_forms((2, 5), draws=100)
    assert forms.ranks == {2: 1, 5: 4}
    assert max(forms.constructions, forms.apart) < 1e-12
    monkeypatch.setattr(chapter.plain, "centring", lambda d: np.eye(d) - 0.9 / d)
    assert chapter.compare_forms((5,), draws=100).apart > 1e-2


def test_a_plane_that_contains_1_becomes_two_points():
    points, distinct, error = chapter.images_of_a_plane(7, draws=500)
    assert (points, distinct) == (500, 2)
    assert error < 1e-10


def test_what_is_removed_of_two_vectors_by_hand():
    x = torch.tensor([[3.0, 4.0], [1.0, 1.0]], dtype=torch.float64)
    cosine, length = chapter.removed(x)
    np.testing.assert_allclose(cosine, [7 / (5 * 2**0.5), 1.0])
    np.testing.assert_allclose(length, [0.5**0.5, 0.0], atol=1e-15)


def test_inputs_are_rows_of_the_embeddings_added():
    model = lnattn.load_first_layer("book-gpt2")
    x = chapter.inputs(model, length=8)
    from lnattn_book.studies.samples import sample_windows

    first = int(sample_windows(model, 8)[0][0, 3])
    row = (model.embeddings.W_E[first] + model.embeddings.W_P[3]).double()
    torch.testing.assert_close(x[3], row)
    assert len(x) % 8 == 0


def test_a_key_inside_never_wins_and_corners_do():
    square = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0.1, 0]], dtype=torch.float64)
    counts = chapter.wins(square, queries=2000)
    assert counts.sum() == 2000
    assert counts[4] == 0
    assert counts[:4].min() == pytest.approx(500, abs=100)
