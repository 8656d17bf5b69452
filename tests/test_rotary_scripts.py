"""A rotary first layer in digits: what a browser would compute from them is what we compute."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from random_relative import config_of
from random_relative import make as make_rotary

from booksite.explorer import rotary_layer
from booksite.explorer.first_layer import PER_SHARD, TOLERANCE, numbers
from lnattn import distance_terms, fold, load_first_layer
from lnattn.attention.relative import mean_vectors
from lnattn.errors import ResultError
from lnattn.relative import RelativeFirstLayer

IDS = [3, 49, 0, 3, 17, 30, 30, 8]


@pytest.fixture(params=["llama-llama3", "gpt_neox", "gptj"])
def model(request, tmp_path, monkeypatch) -> RelativeFirstLayer:
    """A small model with random norms and biases; its tokenizer is another test's matter."""
    monkeypatch.setattr(rotary_layer, "tokenizer_facts", lambda model: {"merges": ""})
    monkeypatch.setattr(rotary_layer, "PER_SHARD", 20)
    make_rotary(config_of(request.param), torch.float32).save_pretrained(tmp_path)
    return load_first_layer(tmp_path)


def values(text: str) -> Any:
    """The JSON value that a script hands to the page."""
    return json.loads(text[text.index('", ') + 3 : text.rindex(")")])


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    whole = np.array(numbers(packed["digits"], packed["width"])).reshape(len(packed["scales"]), -1)
    return (whole - 64 ** packed["width"] // 2) * np.array(packed["scales"])[:, None]


def turned(x: np.ndarray, layer: dict[str, Any]) -> np.ndarray:
    """x: [head n d_head], row m turned as at position m; written out pair by pair."""
    out, cos, sin = x.copy(), unpacked(layer["cos"]), unpacked(layer["sin"])
    pairs = cos.shape[1] // 2
    for m in range(x.shape[1]):
        for p in range(pairs):
            a, b = (2 * p, 2 * p + 1) if layer["interleaved"] else (p, p + pairs)
            u, v = x[:, m, a], x[:, m, b]
            out[:, m, a] = u * cos[m, a] - v * sin[m, a]
            out[:, m, b] = v * cos[m, b] + u * sin[m, b]
    return out


def in_the_browser(written: dict[str, Any], ids: list[int]) -> dict[str, np.ndarray]:
    layer = written["layer.js"]
    rows = np.vstack([unpacked(written[f"rows-{n}.js"]) for n in range(len(written) - 1)])[ids]
    sides = {}
    for side, bias, alone, heads in (
        ("W_Q", "b_Q", "q0", layer["heads"]),
        ("W_K", "b_K", "k0", layer["keyHeads"]),
    ):
        made = (rows @ unpacked(layer[side]).T + layer[bias]).reshape(len(ids), heads, -1)
        made, constant = made.swapaxes(0, 1), np.reshape(layer[alone], (heads, 1, -1))
        parts = (
            turned(made - constant, layer),
            turned(np.broadcast_to(constant, made.shape), layer),
        )
        sides[side] = [np.repeat(part, layer["heads"] // heads, axis=0) for part in parts]
    (q, q0), (k, k0) = sides["W_Q"], sides["W_K"]
    products = {"ee": (q, k), "ed": (q, k0), "e": (q0, k), "d": (q0, k0)}
    return {name: a @ b.swapaxes(1, 2) for name, (a, b) in products.items()}


def test_four_terms_and_attention_from_the_digits(model) -> None:
    unigrams = np.arange(model.embeddings.vocab_size) % 7
    written = {
        name: values(text) for name, text in rotary_layer.rotary_scripts(model, unigrams, "tiny")
    }
    assert len(written) == 1 + -(-model.embeddings.vocab_size // 20)
    wide = model.to(torch.float64)
    folded = fold(wide.attention)
    means = mean_vectors(folded, wide.embeddings, torch.from_numpy(unigrams))
    terms = distance_terms(folded, wide.embeddings, IDS, constants=means)
    found = in_the_browser(written, IDS)
    largest = max(float(terms[name].abs().max()) for name in terms.names)
    for name in terms.names:
        # Twelve bits for an entry of a token, of which two hundred and more are added up.
        gap = np.abs(found[name] - terms[name].numpy()).max()
        assert gap < max(TOLERANCE["terms"], 2e-3 * largest), name
    scores = torch.from_numpy(sum(found.values())) / written["layer.js"]["scale"]
    hidden = torch.ones(len(IDS), len(IDS)).triu(1).bool()
    alpha = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    assert float((alpha - terms.attention()).abs().max()) < 5 * TOLERANCE["attention"]


def test_the_same_model_gives_the_same_bytes_and_their_number_is_bounded(model) -> None:
    unigrams = np.ones(model.embeddings.vocab_size, dtype=int)
    once, again = (dict(rotary_layer.rotary_scripts(model, unigrams, "tiny")) for _ in range(2))
    assert once == again
    rows = sum(len(text) for name, text in once.items() if name.startswith("rows"))
    entries = model.embeddings.W_E.numel()
    assert rows < 2 * entries + 40 * model.embeddings.vocab_size
    assert PER_SHARD == 64


@pytest.mark.parametrize("more", [{"soft_cap": 3.0}, {"clip": 1.0}, {"rotation": None}])
def test_what_the_page_cannot_compute_is_refused(model, more) -> None:
    other = replace(model, attention=replace(model.attention, **more))
    with pytest.raises(ResultError, match="more in its first layer"):
        next(rotary_layer.rotary_scripts(other, np.ones(50, dtype=int), "tiny"))
