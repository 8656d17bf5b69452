"""GPT-2 by place alone: the variance that a published σ leaves, freezing, and GPT-2 itself."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import naming
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import Embeddings, FirstLayer, fold, load_first_layer
from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.position.without_tokens import position_only
from lnattn_book.studies.by_place import (
    GPT2_SIGMA,
    ByPlace,
    PublishedSigma,
    by_place,
    token_variance,
)

CONTEXT = 20


@pytest.fixture(scope="module")
def partial():
    """A layer without token embeddings, with an outlying first position."""
    model = random_gpt2(seed=11, d_model=24, heads=3, vocab=9, context=CONTEXT)
    W_P = 0.3 * embeddings_of(model).W_P
    W_P[0] *= 4
    return FirstLayer(Embeddings(None, W_P), attention_layer(model), None, {"name": "tiny"})


@pytest.fixture(scope="module")
def found(partial):
    median = float(partial.embeddings.W_P.var(dim=1, correction=0).median())
    return by_place(partial, PublishedSigma(first=1.0, elsewhere=(median + 0.2) ** 0.5))


def test_token_variance_is_what_positions_leave_of_sigma():
    assert token_variance(0.5, np.array([0.01, 0.05, 9.0]), 0.02) == pytest.approx(0.18)
    with pytest.raises(ResultError, match=naming("σ = 0.2")):
        token_variance(0.2, np.array([0.01, 0.05, 9.0]), 0.02)


def test_attention_on_the_first_place_is_a_softmax_by_hand(found, partial):
    folded, W_P = fold(partial.attention), partial.embeddings.W_P
    sigma = (W_P.var(dim=1, correction=0) + float(found.token_variance) + folded.eps).sqrt()
    np.testing.assert_allclose(found.sigma, sigma, rtol=1e-12)
    assert found.own.shape == found.ordinary.shape == (3, CONTEXT - 2)  # not the last query
    head, i = 1, 7
    scores = W_P[i] @ folded.dense_W_QK(head) @ W_P.T / sigma[i] + W_P @ folded.b_QK[head]
    ordinary = sigma.clone()
    ordinary[0] = 1 / np.median(1 / sigma[1:])
    for divisor, attention in ((sigma, found.own), (ordinary, found.ordinary)):
        expected = torch.softmax((scores / divisor / folded.scale)[: i + 1], dim=0)[0]
        assert attention[head, i - 1] == pytest.approx(float(expected), rel=1e-10)


def test_weights_in_single_precision_give_the_same(found, partial):
    single = replace(
        partial,
        attention=partial.attention.to(torch.float32),
        embeddings=partial.embeddings.to(torch.float32),
    )
    median = float(single.embeddings.W_P.double().var(dim=1, correction=0).median())
    again = by_place(single, PublishedSigma(first=1.0, elsewhere=(median + 0.2) ** 0.5))
    np.testing.assert_allclose(again.own, found.own, atol=1e-4)
    np.testing.assert_allclose(again.score, found.score, rtol=1e-4)


def test_it_comes_back_from_its_file_and_divides_the_frozen_terms(found, partial, tmp_path):
    found.write(tmp_path)
    back = ByPlace.read(tmp_path)
    np.testing.assert_array_equal(back.own, found.own)
    assert back.switch().sigma_ratio == pytest.approx(found.sigma[0] / np.median(found.sigma[1:]))
    position = position_only(partial)
    divided = back.bias(position)
    query = position.bias.queries[1]
    np.testing.assert_allclose(divided.attention()[:, 1, 0], found.own[:, query - 1], rtol=1e-6)
    variance = partial.embeddings.W_P.var(dim=1, correction=0).numpy()
    doubled = (variance + 2 * float(found.token_variance) + float(found.eps)) ** -0.5
    np.testing.assert_allclose(back.bias(position, times=2).inverse_sigma.mean, doubled, rtol=1e-9)


def test_gpt2_itself():
    folder = os.environ.get("LNATTN_GPT2_ATTENTION")
    if not folder or not Path(folder).is_dir():
        # 117 MB of GPT-2's attention weights, which the repository does not ship.
        # 12 MB of GPT-2 are not in the repository; what is frozen of them is tested above.
        pytest.skip("GPT-2's attention weights are absent: set LNATTN_GPT2_ATTENTION")
    first = load_first_layer(folder)
    found = by_place(replace(first, embeddings=Embeddings(None, first.embeddings.W_P)))
    assert found.sigma[0] == pytest.approx(GPT2_SIGMA.first, rel=0.05)
    assert found.own.shape == (12, 1022)
    frozen = ByPlace.read(data_folder() / "results" / "gpt2")
    np.testing.assert_allclose(frozen.own, found.own, atol=1e-8)
    np.testing.assert_allclose(frozen.ordinary, found.ordinary, atol=1e-8)
    np.testing.assert_allclose(frozen.score, found.score, rtol=1e-8)
