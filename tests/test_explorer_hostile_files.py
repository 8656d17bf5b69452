"""Damaged and hostile files in the explorer's page, in Node.js: refused, or read right."""

from __future__ import annotations

import copy
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_folders import checkpoint
from javascript import in_node
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from test_explorer_checkpoint import ENCODED, FILES, REFUSED, TEXT, TEXTS, opened
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

from lnattn import load_first_layer

#: What a message of the JavaScript engine looks like, which no reader should meet.
RAW = ("Cannot read", "undefined", "is not a function", "Invalid", "Unexpected", "iterable")


def is_sentence(text: str) -> bool:
    return text.endswith(".") and ". " not in text and not any(raw in text for raw in RAW)


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write(path: Path, header: Any, body: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


# ---- Headers -------------------------------------------------------------------------------------

OPEN_ALL = """Promise.all(data.map(async (path) => {
  try {
    const { tensors } = await lnattnSafetensors.open(lnattnSafetensors.ofBlob(await fileOf(path)));
    return [...tensors.keys()].sort();
  } catch (error) {
    return error.message;
  }
}))"""


def mutated_header(header: dict[str, Any], draw: random.Random) -> Any:
    """The header with one thing changed that a header must not or may have."""
    header = copy.deepcopy(header)
    name = draw.choice([key for key in header if key != "__metadata__"])
    other = draw.choice([key for key in header if key != "__metadata__"])
    odd = draw.choice([None, -1, 1.5, True, "x", [], {}, 0, 2**53, 10**30, "constructor"])
    kind = draw.randrange(9)
    if kind == 0:
        header[name]["dtype"] = draw.choice(["F16", "F64", "toString", "__proto__", "I8", odd])
    elif kind == 1:
        header[name]["data_offsets"] = header[other]["data_offsets"]
    elif kind == 2:
        header[name]["data_offsets"][draw.randrange(2)] += draw.choice([-4, -1, 1, 4])
    elif kind == 3:
        header[name]["shape"] = draw.choice([header[other]["shape"], [], [0], odd])
    elif kind == 4:
        header[name][draw.choice(["dtype", "shape", "data_offsets"])] = odd
    elif kind == 5:
        del header[name]
    elif kind == 6:
        header[name] = odd
    elif kind == 7:
        return odd
    else:
        header = dict(reversed(header.items()))  # the order of the names says nothing
    return header


def test_a_header_is_read_as_safetensors_reads_it(tmp_path) -> None:
    folder = checkpoint(tmp_path / "gpt2", "gpt2")
    weights = load_file(folder / FILES[0])
    weights = {name: one for name, one in weights.items() if "ln_1" in name or "wpe" in name}
    save_file(weights, tmp_path / "small.safetensors")
    header, body = header_of(tmp_path / "small.safetensors")
    draw = random.Random(7)
    paths, right = [], []
    for i in range(300):
        path = write(tmp_path / f"{i}.safetensors", mutated_header(header, draw), body)
        try:
            with safe_open(path, "np") as file:
                right.append(sorted(file.keys()))
        except (SafetensorError, TypeError, ValueError):
            right.append(None)
        paths.append(str(path))
    answers = in_node(OPEN_ALL, paths)
    assert 20 < sum(one is not None for one in right) < 200  # both kinds are there
    for path, answer, keys in zip(paths, answers, right, strict=True):
        if keys is None:
            assert isinstance(answer, str), header_of(Path(path))[0]
            assert is_sentence(answer), answer
        else:
            assert answer == keys


@pytest.mark.parametrize(
    "change", [{"data_offsets": [0, 0]}, {"data_offsets": []}, {"dtype": "constructor"}]
)
def test_a_head_without_width_does_not_stop_the_page(change, tmp_path) -> None:
    folder = checkpoint(tmp_path, "llama")
    header, body = header_of(folder / "model.safetensors")
    name = next(key for key in header if key.endswith("q_proj.weight"))
    header[name] |= change
    write(folder / "model.safetensors", header, body)
    assert is_sentence(in_node(REFUSED, [str(folder / one) for one in FILES]))


def test_double_precision_is_read(tmp_path) -> None:
    folder = checkpoint(tmp_path, "gpt2")
    single = opened(folder)
    weights = {name: one.double() for name, one in load_file(folder / FILES[0]).items()}
    save_file(weights, folder / FILES[0])
    assert opened(folder) == single


@pytest.mark.parametrize(
    "prefix", ["_orig_mod.", "module.", "base_model.model.", "_orig_mod.transformer."]
)
def test_prefixes_of_wrappers_are_known(prefix, tmp_path) -> None:
    folder = checkpoint(tmp_path, "gpt2")
    plain = opened(folder)
    weights = {prefix + name: one for name, one in load_file(folder / FILES[0]).items()}
    save_file(weights, folder / FILES[0])
    assert opened(folder) == plain


def test_the_parts_of_a_sharded_checkpoint_are_one(tmp_path) -> None:
    folder = checkpoint(tmp_path, "llama")
    whole = opened(folder)
    weights = load_file(folder / FILES[0])
    (folder / FILES[0]).unlink()
    names = sorted(weights)
    parts = [folder / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, part in enumerate(parts):
        save_file({name: weights[name] for name in names[i::2]}, part)
    files = [*parts, folder / "config.json", folder / "tokenizer.json"]
    joined = opened(folder, files=[str(file) for file in files])
    assert joined["facts"][1:] == whole["facts"][1:]  # the page names a model by its first file
    assert {**joined, "facts": None} == {**whole, "facts": None}
    twice = [*files, parts[0].with_name("again.safetensors")]
    twice[-1].write_bytes(parts[0].read_bytes())
    assert "stands in two of the files" in in_node(REFUSED, [str(file) for file in twice])


def test_tied_embeddings_under_their_other_name_are_found(tmp_path) -> None:
    folder = checkpoint(tmp_path, "gpt2-prefixed")
    plain = opened(folder)
    weights = load_file(folder / FILES[0])
    weights["lm_head.weight"] = weights.pop("transformer.wte.weight")
    save_file(weights, folder / FILES[0])
    assert opened(folder) == plain


# ---- Settings ------------------------------------------------------------------------------------

CONFIGS = """(async () => {
  const files = await Promise.all(data.files.map(fileOf));
  const answers = [];
  for (const config of data.configs) {
    const json = { name: 'config.json', text: async () => JSON.stringify(config) };
    try {
      const { layer } = await lnattnModels.openFiles([...files, json]);
      answers.push({ heads: layer.heads, eps: layer.eps, window: layer.window, scale: layer.scale,
        causal: layer.causal, frequencies: layer.frequencies && Array.from(layer.frequencies) });
    } catch (error) {
      answers.push(error.message);
    }
  }
  return answers;
})()"""
ODD = [None, -1, 0, 1.5, True, "x", "constructor", [], {}, 1e400, -256]


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_a_setting_that_makes_no_sense_is_refused(family, tmp_path) -> None:
    folder = checkpoint(tmp_path, family)
    config = json.loads((folder / "config.json").read_text())
    names = [
        *("n_head", "n_embd", "n_positions", "layer_norm_epsilon", "scale_attn_weights"),
        *("num_attention_heads", "num_key_value_heads", "hidden_size", "layer_norm_eps"),
        *("rms_norm_eps", "rope_parameters", "head_dim", "vocab_size", "is_decoder"),
        *("max_position_embeddings", "type_vocab_size", "model_type"),
    ]
    cases = [(name, odd) for name in names if name in config for odd in ODD]
    configs = [{**config, name: odd if odd != 1e400 else "inf"} for name, odd in cases]
    files = [str(folder / name) for name in FILES if name != "config.json"]
    answers = in_node(CONFIGS, {"files": files, "configs": [config, *configs]})
    plain, *others = answers
    assert plain["heads"] == 4
    assert plain["eps"] in (1e-5, 1e-6, 1e-12)
    for (name, odd), answer in zip(cases, others, strict=True):
        if isinstance(answer, str):
            assert is_sentence(answer), (name, odd, answer)
        elif odd is not None and (name, odd) not in HARMLESS:
            pytest.fail(f"{name} = {odd!r} opens as {answer}")


#: An ε of 0 is a number ≥ 0, and a truth value may be true; such a model is another, but it is one.
HARMLESS = [
    *((name, 0) for name in ("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps")),
    *((name, 1.5) for name in ("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps")),
    *((name, True) for name in ("scale_attn_weights", "is_decoder")),
    *(("rope_parameters", odd) for odd in ({},)),
]


@pytest.mark.parametrize(
    ("family", "settings", "why"),
    [
        ("gpt2", {"add_cross_attention": True}, "attend to an encoder"),
        ("bert", {"position_embedding_type": "relative_key"}, "positions of the kind relative_key"),
        ("llama", {"partial_rotary_factor": 0.5}, "only a part of its queries"),
        ("gpt2", {"n_head": 5}, "does not divide evenly"),
    ],
)
def test_what_the_package_refuses_the_page_refuses(family, settings, why, tmp_path) -> None:
    folder = checkpoint(tmp_path, family)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    assert why in in_node(REFUSED, [str(folder / name) for name in FILES])


@pytest.mark.parametrize("is_local", [True, False])
def test_a_window_in_the_first_layer_of_a_qwen_is_used(is_local, tmp_path) -> None:
    folder = checkpoint(tmp_path, "qwen2")
    config = json.loads((folder / "config.json").read_text())
    kinds = ["sliding_attention" if is_local else "full_attention"]
    more = {"use_sliding_window": True, "sliding_window": 3, "layer_types": kinds}
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    right = load_first_layer(str(folder)).attention.window
    files = [str(folder / name) for name in FILES if name != "config.json"]
    answer = in_node(CONFIGS, {"files": files, "configs": [{**config, **more}]})[0]
    assert answer["window"] == right == (3 if is_local else None)


# ---- Tokenizers ----------------------------------------------------------------------------------

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
HAN = r"[一-龥぀-ゟ゠-ヿ]+"


def split(pattern: str, behaviour: str = "isolated", *, invert: bool = False) -> Any:
    return pre.Split(Regex(pattern), behaviour, invert)


SPLITS = {
    "partial": [split(r"[\r\n]"), split(r"\s?\p{L}+")],
    "deepseek": [
        *(split(r"\p{N}{1,3}"), split(HAN)),
        split(
            r"[!-/:-~]+[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+"
        ),
    ],
    "cl100k": [split(CL100K)],
    "qwen": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|" + WORDS.replace("{1,3}", ""))],
    "llama 3": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|" + WORDS)],
    "digits": [pre.Digits(True), split(WORDS)],
    "removed": [split(r"\s+", "removed")],
    "kept only": [split(r"\p{L}+", "removed", invert=True)],
    "previous": [split(r"\s", "merged_with_previous")],
    "next": [split(r"\s+", "merged_with_next")],
    "contiguous": [split(r"[aeiou]", "contiguous")],
    "script": [split(r"\p{Han}+|\P{Han}+")],
    "text": [pre.Split("e", "isolated")],
}


def byte_level(steps: list[Any], *, prefix: bool = False, normalizer: Any = None) -> Tokenizer:
    """A small BPE over bytes, trained on the book's sentences, whose texts are cut by `steps`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    last = pre.ByteLevel(add_prefix_space=prefix, use_regex=False)
    tokenizer.pre_tokenizer = pre.Sequence([*steps, last])
    alphabet = pre.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, TEXT] * 5, trainer)
    return tokenizer


MORE_TEXTS = [
    *TEXTS,
    "We'LL see: it's 1234567, I'd say ---\n\n\n end  \n",
    "tab\tand \u3000wide\u2003spaces \u0085next",
    "中文和かなカナ mixed with English 123",
    "e\u0301 \u212b \ufb01 ½",
]


def ids_of(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text).ids for text in texts]


def pages_ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    size = max(tokenizer.get_vocab().values()) + 1
    data = {"json": json.loads(tokenizer.to_str()), "size": size, "begin": None, "texts": texts}
    return in_node(ENCODED, data)["ids"]


@pytest.mark.parametrize("name", SPLITS)
def test_every_way_of_splitting_gives_the_librarys_ids(name) -> None:
    tokenizer = byte_level(SPLITS[name])
    assert pages_ids(tokenizer, MORE_TEXTS) == ids_of(tokenizer, MORE_TEXTS)


@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "NFKD"])
def test_texts_are_normalised_as_the_file_says(name) -> None:
    tokenizer = byte_level([split(WORDS)], normalizer=getattr(normalizers, name)())
    assert pages_ids(tokenizer, MORE_TEXTS) == ids_of(tokenizer, MORE_TEXTS)


@pytest.mark.parametrize("prefix", [True, False])
def test_a_space_is_put_first_as_the_file_says(prefix) -> None:
    texts = ["word", " word", "\u3000word", "\nword", "a <|x|>b"]
    tokenizer = byte_level([split(WORDS)], prefix=prefix)
    tokenizer.add_special_tokens(["<|x|>"])
    assert pages_ids(tokenizer, texts) == ids_of(tokenizer, texts)


def test_added_tokens_are_found_as_the_library_finds_them() -> None:
    tokenizer = byte_level([split(WORDS)])
    tokenizer.add_tokens(
        [
            AddedToken("<|left|>", lstrip=True, normalized=False),
            AddedToken("<|right|>", rstrip=True, normalized=False),
            AddedToken("cat", single_word=True, normalized=False),
            AddedToken("cat<|x|>", normalized=False),
            AddedToken("\u212b", normalized=True),
        ]
    )
    tokenizer.normalizer = normalizers.NFC()
    texts = [
        *("a  <|left|> b", "a <|right|>   b", "cat concat cats the cat.", "cat<|x|> cat"),
        *(
            "<|left|><|right|> <|left|>",
            "<|right|>  <|left|>",
            "x <|right|> \n <|left|> y",
            "\u212b \u00c5 A\u030a",
            "_cat cat_ 9cat",
        ),
    ]
    assert pages_ids(tokenizer, texts) == ids_of(tokenizer, texts)


def test_bert_whose_texts_are_not_cleaned() -> None:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "new", "york", "##s", "e", "\u00e9", "\u00ad", "\ufffd"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    for clean in (True, False):
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(clean_text=clean, strip_accents=False)
        tokenizer.pre_tokenizer = pre.BertPreTokenizer()
        texts = ["New Yorks", "new\u00adyork", "new\ufffd york", "\u00e9 e"]
        assert pages_ids(tokenizer, texts) == ids_of(tokenizer, texts)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"max_input_chars_per_word": 4}, {}),
        ({}, {"lowercase": False}),
        ({}, {"lowercase": False, "strip_accents": True}),
        ({}, {"strip_accents": False}),
        ({}, {"handle_chinese_chars": False}),
        ({"continuing_subword_prefix": "+"}, {}),
    ],
)
def test_each_option_of_berts_tokens(options, settings) -> None:
    """Words of 100 letters are cut, those of 101 unknown, as by the library's default."""
    marks = options.get("continuing_subword_prefix", "##")
    letters = ["a", "b", "A", "e", "\u00e9", "\u4e2d"]
    pieces = ["[UNK]", *letters, "ab", *(marks + one for one in (*letters, "ab"))]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", **options))
    tokenizer.normalizer = normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = pre.BertPreTokenizer()
    texts = ["a" * 99, "a" * 100, "a" * 101, "a" * 100 + "c", "abab babA", "Ab\u00e9 e\u0301a"]
    texts += ["a\u4e2db \u4e2d\u4e2d", "aaaa aaaaa", "a.b-a"]
    assert pages_ids(tokenizer, texts) == ids_of(tokenizer, texts)


@pytest.mark.parametrize(
    "pattern", [r"(?<name>a)\k<name>", r"[a&&b]", r"a(?>b)", r"\h+", r"[^\S\n]"]
)
def test_a_pattern_that_is_not_translated_leaves_the_page_without_sentences(pattern) -> None:
    tokenizer = byte_level([])
    words = json.loads(tokenizer.to_str())
    words["pre_tokenizer"]["pretokenizers"].insert(
        0, {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    )
    data = {"json": words, "size": 400, "begin": None, "texts": ["a"]}
    assert in_node(ENCODED, data)["ids"] is None


def test_a_damaged_tokenizer_is_refused_in_a_sentence() -> None:
    words = json.loads(byte_level([split(WORDS)]).to_str())
    changes = [
        {"added_tokens": True},
        {"post_processor": {"type": "TemplateProcessing", "single": [None]}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": 5}},
        {"model": {"type": "BPE", "vocab": words["model"]["vocab"], "merges": 5}},
        {"added_tokens": [None]},
    ]
    asked = """Promise.all(data.map((json) => lnattnTokenizer.tokenizer(json, 400).then(
      ({ encode }) => String(encode && encode('a b')), (error) => error.message)))"""
    for answer in in_node(asked, [{**words, **change} for change in changes]):
        assert answer == "null" or is_sentence(answer), answer


# ---- Large vocabularies --------------------------------------------------------------------------

LARGE = """(async () => {
  const size = data.size, d = 8;
  let [time, pauses] = [0, 0];
  performance.now = () => (time += 1000); // as if every step took long
  const wait = setTimeout;
  globalThis.setTimeout = (done) => (pauses++, wait(done));
  const rows = (first, count) =>
    Float32Array.from({ length: count * d }, (_, at) => Math.sin(first * d + at));
  const W = Float32Array.from({ length: d * d }, (_, i) => Math.cos(i));
  const layer = lnattnFirstLayer.fold({
    d, heads: 2, keyHeads: 2, norm: 'layer', positionsAre: 'learned', eps: 1e-5, scale: 2,
    causal: true, gamma: new Float32Array(d).fill(1), beta: null, W_Q: W, W_K: W, b_Q: null,
    b_K: null, positions: [new Float32Array(d), new Float32Array(d).fill(0.5)],
  });
  const all = lnattnFirstLayer.vocabulary(layer, rows, size);
  await all.add(0, size);
  const { keys } = await all.partners(3, { key: 5 });
  const vocab = Object.fromEntries(Array.from({ length: size }, (_, i) => [`w${i}`, i]));
  const json = { model: { type: 'BPE', vocab, merges: [] }, added_tokens: [],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false } };
  const before = pauses;
  const { tokens } = await lnattnTokenizer.tokenizer(json, size);
  const best = keys.map((head) => head.map(({ id }) => id));
  return { pauses: [before, pauses - before], best, last: tokens.at(-1) };
})()"""


def test_a_large_vocabulary_leaves_the_page_time_to_answer() -> None:
    """The work is cut into pieces with a pause between: 30 blocks, read twice; 30 of the tokens."""
    size = 30 * 1024
    answer = in_node(LARGE, {"size": size})
    assert answer["pauses"][0] >= 2 * 30
    assert answer["pauses"][1] >= 29
    assert answer["last"] == f"w{size - 1}"
    assert len(answer["best"][0]) == 5
    rows = np.sin(np.arange(8 * size)).reshape(-1, 8)
    W = np.cos(np.arange(64)).reshape(8, 8)
    C = np.eye(8) - 1 / 8
    places = np.array([np.zeros(8), np.full(8, 0.5)])
    sigma = np.mean([np.sqrt((rows + p).var(axis=1) + 1e-5) for p in places], axis=0)
    queries, keys = rows @ C @ W, rows @ C @ W
    for head, best in enumerate(answer["best"]):
        part = slice(4 * head, 4 * head + 4)
        scores = keys[:, part] @ queries[3, part] / sigma
        np.testing.assert_allclose(np.sort(scores)[::-1][:5], scores[best], rtol=1e-5)
