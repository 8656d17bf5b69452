"""A rotary first layer in the browser: its four terms, attention and KL are Python's.

In Node.js and in Chromium; a test is skipped, by name, where its engine is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from javascript import ENGINES, in_engine
from random_relative import config_of
from random_relative import make as make_rotary

from booksite.explorer import rotary_layer
from booksite.explorer.first_layer import PER_SHARD
from booksite.explorer.texts import value_of
from lnattn import distance_terms, fold, load_first_layer
from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.relative import mean_vectors
from lnattn.book.affinity import counts_and_source
from lnattn.errors import ResultError
from lnattn.relative import RelativeFirstLayer
from lnattn.studies.contribution.study import kl_of_removal
from lnattn.text.tokenizers import encode_documents

SCRIPTS = ["first-layer.js", "rotary-layer.js"]
IDS = [3, 49, 0, 3, 17, 30, 30, 8]
LOOK = """(() => {
  const { look } = lnattnFirstLayer;
  const { distanceTerms, layer, strongest, tokens } = lnattnRotary;
  const one = layer(data.layer);
  const found = data.ids.map(id =>
    tokens(data.rows[Math.floor(id / one.perShard)])[id % one.perShard]);
  const terms = distanceTerms(one, found, found.map((_, i) => data.shift + i));
  return {
    names: terms.names,
    tolerance: data.layer.tolerance,
    strongest: strongest(one, terms),
    seen: Array.from({ length: one.heads }, (_, head) =>
      found.map((_, query) => look(one, terms, head, query, data.settings))),
  };
})()"""


@pytest.fixture(params=ENGINES)
def run(request) -> Iterator[Callable[[str, Any], Any]]:
    """Evaluates an expression of `data` after the scripts."""
    yield from in_engine(request, SCRIPTS)


@pytest.fixture(params=["llama-llama3", "gpt_neox", "gptj", "llama-gqa-window"])
def model(request, tmp_path, monkeypatch) -> RelativeFirstLayer:
    """A small model with random norms and biases; its tokenizer is another test's matter."""
    monkeypatch.setattr(rotary_layer, "tokenizer_facts", lambda model: {"merges": ""})
    monkeypatch.setattr(rotary_layer, "PER_SHARD", 20)
    name, *more = request.param.split("-gqa-")
    name = "llama-llama3" if more else name
    make_rotary(config_of(name), torch.float32).save_pretrained(tmp_path)
    found = load_first_layer(tmp_path)
    return replace(found, attention=replace(found.attention, window=3)) if more else found


@pytest.fixture(scope="module")
def book_llama() -> RelativeFirstLayer:
    return load_first_layer("book-llama")


def written_of(model: RelativeFirstLayer, unigrams: np.ndarray) -> dict[str, Any]:
    scripts = rotary_layer.rotary_scripts(model, unigrams, "m")
    return {name: value_of(text)[1] for name, text in scripts}


@pytest.fixture(scope="module")
def unigrams(book_llama) -> np.ndarray:
    return counts_and_source(book_llama)[0].unigrams


@pytest.fixture(scope="module")
def written(book_llama, unigrams) -> dict[str, str]:
    return dict(rotary_layer.rotary_scripts(book_llama, unigrams, "m"))


@pytest.fixture(scope="module")
def book_values(written) -> dict[str, Any]:
    return {name: value_of(text)[1] for name, text in written.items()}


def looked_at(run, written: dict, ids: list[int], shift: int = 0, **settings: Any) -> Any:
    rows = [written[f"rows-{n}.js"] for n in range(len(written) - 1)]
    layer = written["layer.js"]
    needed = sorted({token // layer["perShard"] for token in ids})
    places = [needed.index(i // layer["perShard"]) * layer["perShard"] for i in ids]
    places = [place + i % layer["perShard"] for place, i in zip(places, ids, strict=True)]
    data = {"layer": layer, "rows": [rows[n] for n in needed], "ids": places, "shift": shift}
    return run(LOOK, {**data, "settings": settings})


def compare(
    found: Any, model: RelativeFirstLayer, unigrams: np.ndarray, ids: list[int], shift: int = 0
) -> None:
    """Every number of every head and query, within what the module promises."""
    model = model.to(torch.float64)
    folded, most = fold(model.attention), found["tolerance"]
    means = mean_vectors(folded, model.embeddings, torch.as_tensor(unigrams))
    places = list(range(shift, shift + len(ids)))
    terms = distance_terms(folded, model.embeddings, ids, places, means)
    attention = terms.attention()
    assert found["names"] == list(DISTANCE_TERMS)
    moved = {}
    for head, queries in enumerate(found["seen"]):
        for query, seen in enumerate(queries):
            keys = seen["keys"]
            scores = terms.scores()[head, query, keys] / folded.scale
            for name in DISTANCE_TERMS:
                right = terms[name][head, query, keys]
                np.testing.assert_allclose(seen["values"][name], right, atol=most["terms"], rtol=0)
                shift_of = float(kl_of_removal(scores, right / folded.scale))
                assert seen["moved"][name] == pytest.approx(shift_of, abs=most["kl"])
                moved[head, query] = max(shift_of, moved.get((head, query), 0.0))
            total = scores * folded.scale
            np.testing.assert_allclose(seen["scores"], total, atol=4 * most["terms"], rtol=0)
            right = attention[head, query, keys]
            np.testing.assert_allclose(seen["weights"], right, atol=most["attention"], rtol=0)
            assert float(right.sum()) == pytest.approx(float(attention[head, query].sum()))
    best = found["strongest"]
    assert moved[best["head"], best["query"]] >= max(moved.values()) - 2 * most["kl"]


SENTENCES = [
    "The city of New York is the largest city in the United States.",
    "I've we'll they'd; in 1998, π ≈ 3.14159 — Страна моя",
    "the the the the the the the the",
]


@pytest.mark.parametrize("number", range(len(SENTENCES)))
def test_the_book_models_terms_are_those_of_the_package(
    run, book_llama, unigrams, book_values, number
) -> None:
    (ids,) = encode_documents([SENTENCES[number]], book_llama.tokenizer, 64)
    shift = [0, 60, 3][number]
    found = looked_at(run, book_values, ids, shift)
    compare(found, book_llama, unigrams, ids, shift)


def test_terms_of_random_layers(run, model) -> None:
    """Shared keys, partial and interleaved turns, biases, a window; numbers of a usual size."""
    unigrams = np.arange(model.embeddings.vocab_size) % 7
    written = written_of(model, unigrams)
    assert len(written) == 1 + -(-model.embeddings.vocab_size // 20)
    compare(looked_at(run, written, IDS, 5), model, unigrams, IDS, 5)


def test_settings_do_what_they_say(run, book_llama, unigrams, book_values) -> None:
    ids, most = [8191, 40, 500, 8000, 40], book_values["layer.js"]["tolerance"]
    model = book_llama.to(torch.float64)
    folded = fold(model.attention)
    means = mean_vectors(folded, model.embeddings, torch.as_tensor(unigrams))
    terms = distance_terms(folded, model.embeddings, ids, constants=means)
    seen = looked_at(run, book_values, ids, without=["ee", "d"])["seen"][2][4]
    kept = (terms["ed"] + terms["e"])[2, 4] / folded.scale
    np.testing.assert_allclose(seen["weights"], kept.softmax(-1), atol=most["attention"])
    unscaled = looked_at(run, book_values, ids, useScale=False)["seen"][2][4]
    np.testing.assert_allclose(
        unscaled["weights"], torch.tensor(unscaled["scores"]).softmax(-1), atol=1e-9
    )
    # Without the norm, the query is x W_Q, and the constants are the same.
    x = model.embeddings.rows(torch.tensor(ids))
    q = torch.einsum("nd,hdk->hnk", x, folded.W_Q) + folded.b_Q[:, None] - means.q0[:, None]
    k = torch.einsum("nd,hdk->hnk", x, folded.W_K) + folded.b_K[:, None] - means.k0[:, None]
    places = torch.arange(len(ids))
    right = folded.turned(q, places) @ folded.per_head(folded.turned(k, places)).mT
    plain = looked_at(run, book_values, ids, useSigma=False)["seen"][2][4]
    np.testing.assert_allclose(plain["values"]["ee"], right[2, 4], atol=most["terms"])


DISTANT = """(() => {
  const { distanceTerms, layer, tokens } = lnattnRotary;
  const one = layer(data.layer);
  const all = data.rows.flatMap(tokens);
  const [query, key] = [all[data.query], all[data.key]];
  const places = [0, ...data.distances];
  const terms = distanceTerms(one, [key, ...data.distances.map(() => query)], places);
  return Array.from({ length: one.heads }, (_, head) => terms.names.map(name =>
    data.distances.map((_, i) => terms.term(name, head, i + 1, 0))));
})()"""


def test_a_pair_at_every_distance(run, book_llama, unigrams, book_values) -> None:
    rows = [book_values[f"rows-{n}.js"] for n in (0, 5)]
    query, key, distances = 5 * PER_SHARD + 7, 11, [1, 2, 3, 8, 64, 127]
    data = {"layer": book_values["layer.js"], "rows": rows, "query": PER_SHARD + 7, "key": key}
    found = np.array(run(DISTANT, {**data, "distances": distances}))
    model = book_llama.to(torch.float64)
    folded = fold(model.attention)
    means = mean_vectors(folded, model.embeddings, torch.as_tensor(unigrams))
    for i, distance in enumerate(distances):
        # Only the distance counts: the key stands at another place here.
        terms = distance_terms(folded, model.embeddings, [key, query], [9, 9 + distance], means)
        right = torch.stack([terms[name][:, 1, 0] for name in DISTANCE_TERMS], dim=1)
        np.testing.assert_allclose(
            found[:, :, i], right, atol=book_values["layer.js"]["tolerance"]["terms"]
        )


# ---- What is written -----------------------------------------------------------------------------


def test_the_embedded_model_is_small_and_always_the_same(book_llama, unigrams, written) -> None:
    assert written == dict(rotary_layer.rotary_scripts(book_llama, unigrams, "m"))
    assert len(written["layer.js"]) < 350e3
    assert sum(map(len, written.values())) < 3.6e6
    assert all(text.isascii() for text in written.values())


@pytest.mark.parametrize("more", [{"soft_cap": 3.0}, {"clip": 1.0}, {"rotation": None}])
def test_what_the_page_cannot_compute_is_refused(book_llama, more) -> None:
    other = replace(book_llama, attention=replace(book_llama.attention, **more))
    with pytest.raises(ResultError, match="more in its first layer"):
        next(rotary_layer.rotary_scripts(other, np.ones(8192, dtype=int), "tiny"))
