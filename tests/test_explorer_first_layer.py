"""The first layer in the browser: the tokenizer's ids, and the six terms, are Python's.

In Node.js and in Chromium; a test is skipped, by name, where its engine is not installed.
"""

from __future__ import annotations

import functools
import random
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from javascript import ENGINES, in_engine
from random_models import attention_layer, embeddings_of, random_gpt2

from booksite.explorer import coding, digits, first_layer
from booksite.explorer.texts import value_of
from lnattn import fold, load_first_layer, six_terms
from lnattn.attention.terms import TERMS
from lnattn.errors import ResultError, TokenError
from lnattn.studies.affinity.vectors import mean_sigma, token_vectors
from lnattn.studies.contribution.study import kl_of_removal
from lnattn.text.tokenizers import encode_documents, train_bpe
from lnattn.weights import FirstLayer

SCRIPTS = ["bpe.js", "first-layer.js"]
TEXTS = [
    "",
    " ",
    "   ",
    "The city of New York is the largest city in the United States.",
    "I've we'll they'd he's can't 'tis 'S'T'RE don'T",
    "a  b   c\t\td\n\n e \r\n f   ",
    "x\u0085y\ufeffz\u00a0w\u2003v\u200bu\u3000t\x1cs\x1fr",
    "In 1998, π ≈ 3.14159; ½ + ¾ = 1¼, x² ≥ Ⅷ",
    "<|endoftext|>a<|endoftext|> <|endoftext|><|endoftext|",
    "</script><img src=x onerror=alert(1)> &amp; <!-- --> ]]>",
    "Страна моя, Москва моя — ты самая любимая!",
    "日本語のテキストを入力してください。你好，世界！안녕하세요 세계",
    "مرحبا بالعالم، שלום עולם, नमस्ते दुनिया, ภาษาไทย",
    "👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 é ñ ﬁ Ǆ İ ß ẞ 𝕏 \U0010ffff",
    "\x00\x01\x7f\u202e\u2028\u2029\ufffd",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa the the thethethe",
    "__proto__ constructor toString 'll'll's's",
]


def received(text: str) -> Any:
    """What a script hands over."""
    return value_of(text)[1]


@pytest.fixture(params=ENGINES)
def run(request) -> Iterator[Callable[[str, Any], Any]]:
    """Evaluates an expression of `data` after the two scripts."""
    yield from in_engine(request, SCRIPTS)


# ---- Text to tokens ------------------------------------------------------------------------------

ENCODE = """(() => {
  const { numbers } = lnattnFirstLayer;
  const encode = lnattnBpe.tokenizer(data.tokens, numbers(data.merges, 3), data.added);
  return data.texts.map(encode);
})()"""


@pytest.fixture(scope="module")
def book_model() -> FirstLayer:
    return load_first_layer("book-gpt2")


def tokenizer_data(model: FirstLayer, vocab: int) -> dict[str, Any]:
    from booksite.explorer.texts import token_texts

    layer = first_layer.tokenizer_facts(model)
    tokens = token_texts(model.tokenizer, vocab)
    return {"tokens": tokens, "merges": layer["merges"], "added": layer["added"]}


def random_texts(seed: int, n: int) -> list[str]:
    """Letters, digits, spaces, signs and rare characters in any order."""
    draw = random.Random(seed)
    frequent = "eaoi tn sr'ldc0129 .,\n\t-\u00a0é中🙂"
    anywhere = [*range(0xD800), *range(0xE000, 0x110000)]
    return [
        "".join(
            draw.choice(frequent) if draw.random() < 0.8 else chr(draw.choice(anywhere))
            for _ in range(draw.randrange(60))
        )
        for _ in range(n)
    ]


def test_ids_are_those_of_the_tokenizers_library(run, book_model) -> None:
    texts = [*TEXTS, *random_texts(1, 400)]
    data = tokenizer_data(book_model, 8192)
    found = run(ENCODE, {**data, "texts": texts})
    right = book_model.tokenizer(texts, add_special_tokens=False)["input_ids"]
    for text, ours, theirs in zip(texts, found, right, strict=True):
        assert ours == theirs, repr(text)
    assert any(8191 in ids for ids in right)
    assert max(map(len, right)) > 30


@pytest.fixture(scope="module")
def every_character(book_model) -> tuple[list[list[int]], list[str], list[list[int]]]:
    """Blocks of characters, a text with those of each, and its token ids."""
    codes = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in "CnCsCo"]
    assert len(codes) > 130_000
    blocks = [codes[i : i + 200] for i in range(0, len(codes), 200)]
    texts = [" ".join(f"t{chr(c)}he 1{chr(c)}9 .{chr(c)}" for c in block) for block in blocks]
    return blocks, texts, book_model.tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_every_character_is_split_as_the_library_splits_it(
    run, book_model, every_character
) -> None:
    """Each between letters, digits, signs and spaces; only newer Unicode may differ."""
    blocks, texts, right = every_character
    found = run(ENCODE, {**tokenizer_data(book_model, 8192), "texts": texts})
    wrong = [b for b, ours, theirs in zip(blocks, found, right, strict=True) if ours != theirs]
    assert not wrong, [f"U+{block[0]:04X}" for block in wrong]


def test_merges_are_taken_as_learned_and_not_by_what_they_make(run) -> None:
    """Another tokenizer, with another vocabulary: nothing is built in.

    It joins a space with U+FEFF, which is a space for JavaScript alone, and a sign with the first
    byte of U+0085, which is one for the library alone.
    """
    documents = ["abab abc bcbc cabab " * 20, "zażółć gęślą jaźń " * 30, "x!« x!« x \ufeff" * 40]
    tokenizer = train_bpe(documents, vocab_size=290)
    assert [len(tokenizer(joined)["input_ids"]) for joined in ("!«", " \ufeff")] == [1, 1]
    model = replace(random_layer(), tokenizer=tokenizer)
    texts = [*documents, "abcabcbcabab", "jaźń ababc", "! \ufeff!\x85! \x85", *random_texts(2, 50)]
    found = run(ENCODE, {**tokenizer_data(model, 290), "texts": texts})
    assert found == tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_a_lone_half_of_a_surrogate_pair_is_a_replacement_character(run, book_model) -> None:
    data = tokenizer_data(book_model, 8192)
    found = run(ENCODE, {**data, "texts": ["a\ud83db", "\udc80", "\ufffd"]})
    right = book_model.tokenizer(["a\ufffdb", "\ufffd"], add_special_tokens=False)["input_ids"]
    assert found == [right[0], right[1], right[1]]


# ---- Tokens to terms -----------------------------------------------------------------------------

LOOK = """(() => {
  const { TERMS, embeddings, layer, look, sixTerms } = lnattnFirstLayer;
  const one = layer(data.layer);
  const shards = data.rows.map(shard => embeddings(one, shard).map((unit, i) =>
    unit.map(value => value * shard.sigma[i])));
  const rows = data.ids.map(id => shards[Math.floor(id / one.perShard)][id % one.perShard]);
  const terms = sixTerms(one, rows, data.shift);
  const all = f => Array.from({ length: one.heads }, (_, head) =>
    rows.map((_, query) => f(look(one, terms, head, query, data.settings))));
  return { sigma: Array.from(terms.sigma), seen: all(one => one) };
})()"""


def random_layer(**changes: object) -> FirstLayer:
    """A random GPT-2's first layer; random gains, biases and shifts, 70 tokens, 16 positions."""
    module = random_gpt2(5, vocab=70, context=16)
    attention = attention_layer(module)
    attention = replace(attention, W_Q=attention.W_Q / 30, b_Q=attention.b_Q / 30, **changes)
    return FirstLayer(embeddings_of(module), attention, None, {"name": "random"})


@functools.cache
def scripts_of(model: FirstLayer) -> dict[str, str]:
    return dict(first_layer.layer_scripts(model, "m"))


def looked_at(run, model: FirstLayer, ids: list[int], shift: int = 0, **settings: Any) -> Any:
    """What the browser computes from the scripts of a model."""
    written = scripts_of(model)
    layer, per = received(written["layer.js"]), first_layer.PER_SHARD
    # Only the shards of these tokens, as a page loads them.
    shards = {place: n for n, place in enumerate(sorted({token // per for token in ids}))}
    rows = [received(written[f"rows-{place}.js"]) for place in shards]
    places = [shards[token // per] * per + token % per for token in ids]
    data = {"layer": layer, "rows": rows, "ids": places, "shift": shift, "settings": settings}
    return run(LOOK, data)


def with_tokenizer(model: FirstLayer, book_model: FirstLayer) -> FirstLayer:
    return replace(model, tokenizer=book_model.tokenizer)


def compare(found: Any, model: FirstLayer, ids: list[int], shift: int = 0) -> None:
    """Every number of every head and query, within what the module promises."""
    model = model.to(torch.float64)
    folded = fold(model.attention)
    places = list(range(shift, shift + len(ids)))
    terms = six_terms(folded, model.embeddings, ids, places)
    attention, most = terms.attention(), first_layer.TOLERANCE
    np.testing.assert_allclose(found["sigma"], terms.sigma, rtol=1e-3)
    for head, queries in enumerate(found["seen"]):
        for query, seen in enumerate(queries):
            keys = seen["keys"]
            for name in TERMS:
                right = terms[name][head, query, keys]
                np.testing.assert_allclose(seen["values"][name], right, atol=most["terms"], rtol=0)
                scores = terms.scores()[head, query, keys] / folded.scale
                moved = kl_of_removal(scores, right / folded.scale)
                assert seen["moved"][name] == pytest.approx(float(moved), abs=most["kl"])
            right = attention[head, query, keys]
            np.testing.assert_allclose(seen["weights"], right, atol=most["attention"], rtol=0)
            assert float(attention[head, query].sum()) == pytest.approx(float(right.sum()))


@pytest.mark.parametrize("number", range(4))
def test_the_book_models_terms_are_those_of_the_package(run, book_model, number) -> None:
    sentence = [TEXTS[3], TEXTS[4], TEXTS[7], "the the the the the the the the"][number]
    (ids,) = encode_documents([sentence], book_model.tokenizer, 32)
    shift = [0, 0, 200, 7][number]
    compare(looked_at(run, book_model, ids, shift), book_model, ids, shift)


@pytest.mark.parametrize("changes", [{}, {"causal": False}, {"window": 3}])
def test_terms_of_random_layers(run, book_model, changes) -> None:
    model = with_tokenizer(random_layer(**changes), book_model)
    ids = [3, 1, 69, 64, 63, 3, 0]
    compare(looked_at(run, model, ids, 2), model, ids, 2)


def test_settings_do_what_they_say(run, book_model) -> None:
    model = with_tokenizer(random_layer(), book_model)
    ids, out, most = [5, 9, 66, 2], ["ee", "p"], first_layer.TOLERANCE
    seen = looked_at(run, model, ids, without=out)["seen"][1][3]
    folded = fold(model.attention)
    terms = six_terms(folded, model.embeddings, ids)
    kept = sum(terms[name] for name in TERMS if name not in out)[1, 3]
    torch.testing.assert_close(
        torch.tensor(seen["scores"]).double(), kept, atol=4 * most["terms"], rtol=0
    )
    right = (kept / folded.scale).softmax(-1)
    torch.testing.assert_close(
        torch.tensor(seen["weights"]).double(), right, atol=most["attention"], rtol=0
    )
    whole = terms.attention()[1, 3]
    assert seen["shift"] == pytest.approx(
        float((whole * (whole / right).log()).sum()), abs=most["kl"]
    )

    plain = looked_at(run, model, ids, useSigma=False, useScale=False)["seen"][1][3]
    products = terms.sigma[3] * terms.sigma
    np.testing.assert_allclose(
        plain["values"]["ep"], terms.ep[1, 3] * products, atol=2 * most["terms"]
    )
    np.testing.assert_allclose(
        plain["values"]["p"], terms.p[1, 3] * terms.sigma, atol=2 * most["terms"]
    )
    total = sum(np.array(plain["values"][name]) for name in TERMS)
    np.testing.assert_allclose(plain["weights"], torch.tensor(total).softmax(-1), atol=1e-9)


PAIRS = """(() => {
  const { dot, embeddings, layer, times } = lnattnFirstLayer;
  const one = layer(data.layer);
  const rows = data.rows.flatMap(shard => embeddings(one, shard));
  const vectors = W => rows.map(row => times(row, W));
  const queries = vectors(one.W_Q), keys = vectors(one.W_K);
  return Array.from({ length: one.heads }, (_, head) => data.pairs.map(([query, key]) =>
    dot(queries[query], keys[key], head * one.width, (head + 1) * one.width)));
})()"""


def test_scores_of_pairs_use_the_mean_sigma_of_the_studies(run, book_model) -> None:
    model = with_tokenizer(random_layer(), book_model)
    written = scripts_of(model)
    rows = [received(text) for name, text in written.items() if name.startswith("rows-")]
    pairs = [[0, 69], [64, 64], [3, 5]]
    data = {"layer": received(written["layer.js"]), "rows": rows, "pairs": pairs}
    vectors = token_vectors(fold(model.attention), model.embeddings)
    table = (vectors.queries @ vectors.keys.mT).numpy()
    right = [[head[query, key] for query, key in pairs] for head in table]
    np.testing.assert_allclose(run(PAIRS, data), right, atol=first_layer.TOLERANCE["terms"])


# ---- What is written -----------------------------------------------------------------------------


def test_digits_are_base64() -> None:
    import base64

    values = np.array([0, 1, 4095, 2048, 77])
    bits = "".join(f"{value:012b}" for value in values).ljust(72, "0")
    data = int(bits, 2).to_bytes(9, "big")
    assert digits.digits(values, 2) == base64.b64encode(data).decode()[:10]
    with pytest.raises(ResultError, match="does not fit into 2 base64 digits"):
        digits.digits(np.array([4096]), 2)
    assert digits.digits(np.array([], dtype=np.int64), 2) == ""


def test_a_row_of_zeros_stays_zero(run) -> None:
    rows = np.array([[0.0, 0.0], [1e-30, -2e-30], [3.0, -1.0]])
    packed = digits.packed_rows(rows, 2)
    found = run("lnattnFirstLayer.matrix(data).map(row => Array.from(row))", packed)
    np.testing.assert_allclose(found, rows, rtol=1e-3)
    assert found[0] == [0, 0]


def test_rows_come_back_from_their_coordinates(run) -> None:
    """Products to half a step; the row itself where W has an inverse."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(7, 5)) * [30, 3, 1, 0.3, 0.01] + 2
    weights = rng.normal(size=(5, 9))
    one = coding.coding_of(rows, weights)
    assert one.forth.shape == (5, 5)
    coded = one.coded(rows, 0.01)
    found = np.array(run("lnattnFirstLayer.coordinates(data).map(row => Array.from(row))", coded))
    assert np.abs(found / 0.01 - np.rint(found / 0.01)).max() < 1e-9
    np.testing.assert_allclose(found, (rows - one.mean) @ one.forth, atol=0.005001)
    # The axes are orthonormal: no product is off by more than the root of the sum of the squares.
    off = one.mean + found @ one.back - rows
    assert np.abs(off @ weights).max() <= 0.0051 * 5**0.5
    exact = (rows - one.mean) @ one.forth @ one.back
    np.testing.assert_allclose(exact + one.mean, rows, atol=1e-9)
    spread = np.abs(found).max(axis=0)
    assert spread[0] > 10 * spread[-1]
    with pytest.raises(ResultError, match="choose larger ones"):
        one.coded(rows, 1e-5)


def test_an_error_costs_all_heads_alike() -> None:
    """Heads that meet long vectors get more of the digits; several heads share a key head."""
    rng = np.random.default_rng(5)
    rows, W_Q = rng.normal(size=(50, 6)), rng.normal(size=(4, 6, 3))
    W_K, b = rng.normal(size=(2, 6, 3)) * np.array([5, 0.1])[:, None, None], np.zeros((4, 3))
    weights = coding.score_weights(rows, W_Q, b, W_K, b[:2])
    assert weights.shape == (6, (4 + 2) * 3)
    keys = np.square(np.einsum("vd,hdk->hvk", rows, W_K)).sum(axis=2).mean(axis=1) ** 0.5
    for head in range(4):
        part = weights[:, 3 * head : 3 * head + 3]
        np.testing.assert_allclose(part, W_Q[head] * keys[head // 2])
    queries = np.square(np.einsum("vd,hdk->hvk", rows, W_Q)).sum(axis=2).mean(axis=1)
    met = queries.reshape(2, 2).mean(axis=1) ** 0.5
    np.testing.assert_allclose(weights[:, 15:], W_K[1] * met[1])


def test_the_embedded_model_is_small_and_always_the_same(book_model) -> None:
    written = scripts_of(book_model)
    assert written == dict(first_layer.layer_scripts(book_model, "m"))
    assert len(written["layer.js"]) < 900e3
    assert sum(map(len, written.values())) < 4.4e6
    assert all(text.isascii() for text in written.values())
    rows = [text for name, text in written.items() if name != "layer.js"]
    sigma = [x for text in rows for x in received(text)["sigma"]]
    right = mean_sigma(book_model.embeddings, book_model.attention.ln.eps)
    np.testing.assert_allclose(sigma, right, rtol=5.1e-5)


def test_models_that_cannot_be_computed_with_are_refused(book_model) -> None:
    partial = replace(book_model.embeddings, W_E=None)
    with pytest.raises(TokenError, match="no token embeddings"):
        dict(first_layer.layer_scripts(replace(book_model, embeddings=partial), "m"))
    with pytest.raises(TokenError, match="no tokenizer"):
        dict(first_layer.layer_scripts(random_layer(), "m"))
    from hostile import spelled

    with pytest.raises(ResultError, match="no byte-level BPE"):
        dict(first_layer.layer_scripts(replace(random_layer(), tokenizer=spelled(70)), "m"))
