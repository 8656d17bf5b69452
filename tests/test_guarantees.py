"""Guarantees against every text: all texts of six tokens and four places, run by Hugging Face."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import families
import numpy as np
import pytest
import torch
from families import EACH
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import plain_layer, random_layer

import lnattn
from conformance.cases import CASES
from lnattn import guarantee, guarantees, plain
from lnattn.errors import LnattnError, ShapeError, TokenError
from lnattn.guarantees import EveryText
from lnattn.rotary.weights import RelativeFirstLayer

#: The tokens that texts are made of, a part of the vocabulary, and how many a text has.
TOKENS, LENGTH = [0, 7, 19, 20, 33, 49], 4
TEXTS = torch.tensor(list(itertools.product(TOKENS, repeat=LENGTH)))
#: What bends or hides scores, so small that texts of four tokens feel it.
SMALLER = {
    "sliding_window": 2,
    "attn_logit_softcapping": 1.5,
    "original_max_position_embeddings": 3,
}


@cache
def model_and_layer(kind: str) -> tuple[Any, Any]:
    """A model of Hugging Face in float64, and its first layer."""
    own = CASES[kind].settings
    smaller = {name: value for name, value in SMALLER.items() if own.get(name) is not None}
    model = families.make(kind, **smaller)
    return model, lnattn.first_layer(model)


@torch.no_grad()
def attention_of(model: Any, texts: torch.Tensor) -> np.ndarray:
    """The first layer's attention by Hugging Face: [text head query key]."""
    return families.part_of(model)(texts, output_attentions=True).attentions[0].numpy()


def compare(model: Any, layer: Any, places: list[tuple[int, int]]) -> None:
    """The ends of all texts beside those that the package finds, of every head and pair."""
    attention = attention_of(model, TEXTS)
    assert places
    for head in range(layer.attention.n_heads):
        for i, j in places:
            every = EveryText(layer, head=head, length=LENGTH, place=i, vocabulary=TOKENS)
            least, greatest = every.attention(TOKENS, j, TOKENS)
            paid = attention[:, head, i, j].reshape(LENGTH * (len(TOKENS),))  # a token a place
            by_pair = np.moveaxis(paid, (i, j), (0, 1)).reshape(len(TOKENS), len(TOKENS), -1)
            np.testing.assert_allclose(least, by_pair.min(axis=-1), atol=2e-6)
            np.testing.assert_allclose(greatest, by_pair.max(axis=-1), atol=2e-6)


def seen_places(layer: Any) -> list[tuple[int, int]]:
    """Pairs of a query's place and a key's, other than its own, that the query sees."""
    block = layer.attention
    return [
        (i, j)
        for i in range(LENGTH)
        for j in range(LENGTH)
        if i != j and (not block.causal or 0 < i - j < (block.window or LENGTH))
    ]


@pytest.mark.parametrize("kind", EACH)
def test_every_text(kind):
    model, layer = model_and_layer(kind)
    compare(model, layer, seen_places(layer))


def test_every_kind_of_position_is_asked():
    """Turned, shifted, learned; windows, caps, sinks, norms of heads; one direction and both."""
    layers = [model_and_layer(kind)[1] for kind in EACH]
    assert {type(layer) for layer in layers} == {lnattn.FirstLayer, RelativeFirstLayer}
    blocks = [layer.attention for layer in layers]
    for name in ("rotation", "bias", "soft_cap", "sinks", "norm_Q"):
        assert any(getattr(block, name, None) is not None for block in blocks), name
    assert any((block.window or LENGTH) < LENGTH for block in blocks)
    assert {block.causal for block in blocks} == {True, False}


@pytest.mark.parametrize("kind", EACH)
def test_witnesses_get_what_is_promised(kind):
    model, layer = model_and_layer(kind)
    length, place = 9, 6
    both_ways = [1] if layer.attention.causal else [1, -2, 6]
    for head, distance in itertools.product(range(layer.attention.n_heads), both_ways):
        found = guarantee(
            layer, head=head, query=5, key=8, length=length, place=place, distance=distance
        )
        texts = torch.tensor([found.least_text, found.greatest_text])
        assert texts[:, place].tolist() == [5, 5]
        assert texts[:, place - distance].tolist() == [8, 8]
        paid = attention_of(model, texts)[:, head, place, place - distance]
        np.testing.assert_allclose(paid, [found.least, found.greatest], atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(list(CASES)),
    fixed=st.booleans(),
)
def test_no_text_leaves_the_interval(seed, kind, fixed):
    model, layer = model_and_layer(kind)
    # Without the first five: by the token that pads, transformers shifts RoBERTa's positions.
    text = torch.from_numpy(np.random.default_rng(seed).integers(5, 50, 12))
    place = 9
    reach = min(layer.attention.window or 6, 6)
    at = place - 1 - seed % (reach - 1)
    given_tokens = {11: int(text[11]), (at + 1) % 9: int(text[(at + 1) % 9])} if fixed else None
    attention = attention_of(model, text[None])[0]
    for head in range(layer.attention.n_heads):
        every = EveryText(layer, head=head, length=12, place=place, fixed=given_tokens)
        query, key = int(text[place]), int(text[at])
        least, greatest = every.attention([query], at, [key])
        assert float(least) - 2e-6 <= attention[head, place, at] <= float(greatest) + 2e-6
        itself = every.attention_to_each([query], place, [query])
        assert itself[0] - 2e-6 <= attention[head, place, place] <= itself[1] + 2e-6


def test_the_package_is_plain():
    """Scores of every token at every place by `plain`, on the layer that the package reads."""
    block = random_layer(4, d_model=10, heads=2, d_head=3, causal=True)
    generator = np.random.default_rng(0)
    e, p = generator.normal(size=(6, 10)), generator.normal(size=(5, 10))
    layer = lnattn.FirstLayer(
        lnattn.Embeddings(torch.from_numpy(e), torch.from_numpy(p)), attention=block
    )
    rows = (p[:, None] + e).reshape(-1, 10)  # every token at every place
    for head, i, j in [(0, 4, 3), (1, 4, 0), (1, 2, 1)]:
        scores = plain.scores(rows, plain_layer(block))[head] / block.scale
        s = scores[i * 6 + 2].reshape(5, 6)[: i + 1]
        found = guarantee(layer, head=head, query=2, key=5, length=5, place=i, distance=i - j)
        by_plain = plain.guarantee(s, query=2, i=i, key=5, j=j)
        np.testing.assert_allclose([found.least, found.greatest], by_plain, atol=1e-12)


def test_a_text_of_two_tokens_has_one_attention():
    _, layer = model_and_layer("llama-default")
    found = guarantee(layer, head=1, query=4, key=9, length=2)
    assert found.least == found.greatest
    assert found.least_text == [9, 4]
    itself = guarantee(layer, head=1, query=4, key=4, length=2, distance=0)
    assert itself.least <= 1 - found.least <= itself.greatest


def test_fixed_tokens_stand_in_every_witness():
    _, layer = model_and_layer("bert")
    found = guarantee(layer, head=0, query=4, key=9, length=6, place=3, fixed={0: 2, 5: 3})
    for text in (found.least_text, found.greatest_text):
        assert (text[0], text[2], text[3], text[5]) == (2, 9, 4, 3)
    free = guarantee(layer, head=0, query=4, key=9, length=6, place=3)
    assert free.least <= found.least <= found.greatest <= free.greatest


# ---- Mistakes put in -------------------------------------------------------------------------


def _turned_once_too_often(self, x, distance, right=guarantees._Relative._turned):
    return right(self, x, distance + 1 if 0 < distance < LENGTH - 1 else distance)


def _without_the_own_key(self, queries, right=EveryText.ends):
    low, high = right(self, queries)
    for end in (low, high):
        end[:, self.place] = -torch.inf
    return guarantees.Ends(low, high)


def _largest_alone(self, scores, ends, at):
    others = torch.arange(self.length) != at
    low, high = (end[:, others].amax(dim=1, keepdim=True) for end in ends)
    return torch.sigmoid(scores - high), torch.sigmoid(scores - low)


def _ends_exchanged(self, ids, free, tokens, right=guarantees._Relative.extremes):
    low, high = right(self, ids, free, tokens)
    return high, low


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (guarantees._Relative, "_turned", _turned_once_too_often),
        (EveryText, "ends", _without_the_own_key),
        (EveryText, "_attention", _largest_alone),
        (guarantees._Relative, "extremes", _ends_exchanged),
    ],
    ids=["distance off by one", "own key forgotten", "largest for sum", "ends exchanged"],
)
def test_a_mistake_shows(owner, name, mistake, monkeypatch):
    monkeypatch.setattr(owner, name, mistake)
    model, layer = model_and_layer("llama-default")
    with pytest.raises(AssertionError):
        compare(model, layer, [(3, 2), (3, 0)])


# ---- What is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"length": 1}, ShapeError, "length must be a whole number ≥ 2, not 1."),
        ({"query": 50}, TokenError, "query token 50 is outside the vocabulary"),
        ({"key": -1}, TokenError, "key token -1 is outside the vocabulary"),
        ({"head": 3}, ShapeError, "head must be a whole number from 0 to 1, not 3."),
        ({"place": 6}, TokenError, "place must be a whole number from 0 to 5, not 6."),
        ({"length": 21}, TokenError, "the model has 20 places; give at most that."),
        ({"place": 2, "distance": 3}, TokenError, "the key's place must be a whole number from"),
        ({"place": 2, "distance": -1}, TokenError, "does not see place 3; give one that it sees."),
        ({"distance": 0}, TokenError, "own place holds the query; give that token as its key."),
        ({"distance": 7}, TokenError, "distance must be a whole number from -6 to 6, not 7."),
        ({"vocabulary": []}, TokenError, "vocabulary holds no token"),
        ({"vocabulary": [50]}, TokenError, "vocabulary's token 50 is outside the vocabulary"),
        ({"fixed": {5: 1}}, TokenError, "place 5 is the query's; fix the tokens of other places."),
        ({"fixed": {9: 1}}, TokenError, "a place of fixed must be a whole number from 0 to 5"),
        ({"fixed": {4: 1}}, TokenError, "place 4 is fixed to token 1; give that token as the key."),
    ],
)
def test_bad_input_is_told_in_one_sentence(changes, error, words):
    asked = {"head": 0, "query": 3, "key": 4, "length": 6, **changes}
    with pytest.raises(error) as told:
        guarantee(model_and_layer("gpt2")[1], **asked)
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_layers_above_the_first_and_other_things_are_refused():
    model, layer = model_and_layer("gpt2")
    above = lnattn.FirstLayer(layer.embeddings, replace(layer.attention, index=1))
    asked = {"head": 0, "query": 3, "key": 4, "length": 6}
    with pytest.raises(ShapeError, match="whose inputs are no free choice of tokens"):
        guarantee(above, **asked)
    for wrong in (model, "gpt2", None):
        with pytest.raises(ShapeError, match="model must be a FirstLayer or RelativeFirstLayer"):
            guarantee(wrong, **asked)
    partial = lnattn.FirstLayer(lnattn.Embeddings(None, layer.embeddings.W_P), layer.attention)
    with pytest.raises(LnattnError, match="no token embeddings"):
        guarantee(partial, **asked)


def test_each_query_has_a_key():
    every = EveryText(model_and_layer("gpt2")[1], head=0, length=4)
    with pytest.raises(TokenError, match="give each of 2 queries its key, not 1 keys"):
        every.attention_to_each([1, 2], 2, [3])
    with pytest.raises(TokenError, match="place 3 holds the query"):
        every.attention([1], 3)


@pytest.mark.parametrize("kind", EACH)
def test_what_is_never_looked_at(kind):
    """Of all queries and places, one by one: the greatest attention, and the highest score."""
    _, layer = model_and_layer(kind)
    texts = EveryText(layer, head=0, length=LENGTH)
    every = torch.arange(texts.vocab_size)
    most = torch.stack([texts.attention(every, at)[1] for at in texts.free])
    scores = torch.stack([texts.scores(every, at, every) for at in texts.free])
    never = texts.never()
    assert torch.equal(never.half, (most <= 0.5).all(dim=0).all(dim=0))
    missed = scores.amax(dim=2, keepdim=True) - scores
    assert torch.equal(never.first, (missed > guarantees.TIE).all(dim=0).all(dim=0))
