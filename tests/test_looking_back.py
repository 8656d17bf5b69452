"""Attention to the token before, by term: all orders tried one by one, and what a switch needs."""

from __future__ import annotations

from functools import cache, partial
from itertools import permutations

import numpy as np
import pytest
import torch
from random_models import random_layer
from scipy.special import softmax
from test_contribution import random_embeddings, random_ids
from test_distance import VOCAB, random_relative

from lnattn import distance_terms, fold, fold_relative, six_terms
from lnattn.errors import TokenError
from lnattn_book.studies.looking_back import looking_back


def rotary_terms(n: int = 7, **more):
    layer, embeddings = random_relative(3, **more)
    ids = torch.randint(VOCAB, (n,), generator=torch.Generator().manual_seed(1))
    return distance_terms(fold_relative(layer), embeddings, ids)


def learned_terms(causal: bool, n: int = 6):
    folded = fold(random_layer(3, 16, heads=2, d_head=5, causal=causal))
    return six_terms(folded, random_embeddings(4), random_ids(5, n))


def paid(terms, chosen: frozenset[str], head: int, query: int, causal: bool) -> float:
    """Attention of one query to the token before, by a softmax over the keys that it sees."""
    last = query + 1 if causal else len(terms[terms.names[0]][0])
    scores = np.zeros(last)
    for name in chosen:
        scores += terms[name][head, query, :last].double().numpy()
    return float(softmax(scores / terms.folded.scale)[query - 1])


@pytest.mark.parametrize(
    ("terms", "causal"),
    [(rotary_terms(), True), (learned_terms(True), True), (learned_terms(False), False)],
    ids=["rotary", "learned", "both ways"],
)
def test_a_share_is_what_a_term_adds_on_average_over_all_orders(terms, causal) -> None:
    back = looking_back(terms)
    orders = list(permutations(terms.names))
    for head, query in ((0, 1), (1, 4)):
        of_set = cache(partial(paid, terms, head=head, query=query, causal=causal))
        for place, name in enumerate(terms.names):
            added = []
            for order in orders:
                before = frozenset(order[: order.index(name)])
                added.append(of_set(before | {name}) - of_set(before))
            share = float(back.shares[place, head, query - 1])
            assert share == pytest.approx(np.mean(added), abs=1e-10)
            left = of_set(frozenset(terms.names) - {name})
            assert float(back.without[place, head, query - 1]) == pytest.approx(left, abs=1e-10)


@pytest.mark.parametrize("terms", [rotary_terms(), learned_terms(True)], ids=["rotary", "learned"])
def test_shares_and_even_attention_add_up_to_the_heads_own(terms) -> None:
    back = looking_back(terms)
    whole = terms.attention().diagonal(offset=-1, dim1=1, dim2=2)
    torch.testing.assert_close(back.attention, whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(back.even + back.shares.sum(0), whole, atol=1e-12, rtol=0)
    even = [1 / (i + 1) for i in range(1, back.even.shape[1] + 1)]
    for row in back.even:
        assert row.tolist() == pytest.approx(even)


def test_a_window_of_one_key_hides_the_token_before() -> None:
    back = looking_back(rotary_terms(window=1))
    assert back.attention.abs().max() == 0
    assert back.shares.abs().max() == 0


def test_what_is_no_text_of_two_tokens_is_refused() -> None:
    with pytest.raises(TokenError, match="two tokens"):
        looking_back(rotary_terms(1))


def test_no_term_of_the_querys_token_and_the_keys_place_can_peak_one_back_twice() -> None:
    """T^ep of one token at all places is one curve over the key's place, up to the query's σ.

    To stand higher at i − 1 than at i it must fall there, to stand higher than at i − 2, rise: not
    both for two queries in a row. T^ed of one token is the same curve at every place.
    """
    folded = fold(random_layer(3, 16, heads=2, d_head=5, causal=False))
    six = six_terms(folded, random_embeddings(4), [7] * 6)
    curves = six.ep * six.sigma[:, None] * six.sigma  # without σ: e W_QK p_jᵀ
    torch.testing.assert_close(curves, curves[:, :1].expand_as(curves))
    peaks = (curves[..., 1:-1] > curves[..., :-2]) & (curves[..., 1:-1] > curves[..., 2:])
    assert not (peaks[..., 1:] & peaks[..., :-1]).any()
    layer, embeddings = random_relative(3)
    four = distance_terms(fold_relative(layer), embeddings, [7] * 6)
    torch.testing.assert_close(four.ed[:, 1:, 1:], four.ed[:, :-1, :-1], atol=1e-9, rtol=1e-9)
    assert (four.ed[:, 3, 1] - four.ed[:, 3, 2]).abs().min() > 0.01
