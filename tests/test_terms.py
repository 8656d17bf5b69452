"""The six terms in models, and refusals; each term against its definition is in `test_plain`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from naming import naming
from random_models import attention_layer, embeddings_of, plain_layer, plain_rows

from lnattn import Embeddings, fold, plain, sigma_of_pairs, six_terms
from lnattn.attention.terms import TERMS
from lnattn.errors import ShapeError, TokenError

IDS = [3, 39, 3, 0, 17, 17, 8]


@pytest.fixture
def parts(gpt2):
    layer = attention_layer(gpt2)
    return layer, fold(layer), embeddings_of(gpt2)


def test_leaving_a_term_out(parts):
    _, folded, embeddings = parts
    terms = six_terms(folded, embeddings, IDS)
    for name in TERMS:
        expected = terms.scores() - terms[name]
        torch.testing.assert_close(terms.scores(without=name), expected, atol=1e-9, rtol=1e-9)
        assert (terms.attention(without=name) - terms.attention()).abs().max() > 1e-6


def test_positions_may_be_given(parts):
    _, folded, embeddings = parts
    shifted = six_terms(folded, embeddings, IDS, positions=list(range(5, 12)))
    e, p = plain_rows(embeddings)
    expected = plain.six_terms(e[IDS], p[5:12], plain.fold(plain_layer(parts[0])))
    for name in TERMS:
        np.testing.assert_allclose(shifted[name], expected[name], atol=1e-10, rtol=1e-10)


def test_sigma_of_cancelling_pair_is_root_eps():
    e = torch.randn(1, 6, dtype=torch.float64)
    pairs = sigma_of_pairs(Embeddings(e, -e), [0], [0], eps=1e-5)
    torch.testing.assert_close(pairs, torch.full((1, 1), 1e-5, dtype=torch.float64).sqrt())


@pytest.mark.parametrize(
    ("ids", "positions", "message"),
    [
        ([40], None, "token id 40"),
        ([-1], None, "token id -1"),
        ([1] * 33, None, "position 32"),
        ([1, 2], [0, 32], "position 32"),
        ([], None, "non-empty"),
        ([1, 2], [0], "one length"),
        ([1.5, 2.7], None, naming("float64", 1.5)),
        ([True, False], None, "bool"),
        ([1, 2], [0, 0.5], "positions"),
    ],
)
def test_bad_indices_are_one_sentence(parts, shapes_unchecked, ids, positions, message):
    _, folded, embeddings = parts
    with pytest.raises(TokenError, match=message):
        six_terms(folded, embeddings, ids, positions)


def test_weights_of_two_models_are_one_sentence(parts, shapes_unchecked):
    _, folded, embeddings = parts
    for other in (embeddings.to(torch.float32), Embeddings(torch.ones(40, 7), torch.ones(32, 7))):
        with pytest.raises(ShapeError, match=naming("one model", "dtype")):
            six_terms(folded, other, [1, 2])


def test_partial_checkpoint_says_what_it_cannot_do(parts):
    _, folded, embeddings = parts
    partial = Embeddings(None, embeddings.W_P)
    with pytest.raises(TokenError, match="token embeddings"):
        six_terms(folded, partial, [1, 2])
    with pytest.raises(TokenError, match="token embeddings"):
        sigma_of_pairs(partial, [1], [1], 1e-5)


def test_variances_that_cancel_are_zero_and_not_below():
    """p = −e in float32, width 768: σ is √ε for each, where rounding would make some NaN."""
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        e = torch.randn(3, 768, generator=generator)
        found = sigma_of_pairs(Embeddings(e, -e), [0, 1, 2], [0, 1, 2], eps=1e-12)
        assert found.isfinite().all()
        assert float(found.diagonal().min()) >= 0.999e-6
        assert float(found.diagonal().max()) < 1e-2
