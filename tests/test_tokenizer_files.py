"""A tokenizer is what its file says, whatever class transformers would make of it."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naming import naming
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, processors, trainers
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from transformers import PreTrainedTokenizerFast

from lnattn.cli.main import main
from lnattn.errors import CorpusError
from lnattn.models.tokenizer_files import PROBES, disagreement, load_tokenizer, tokenizer_errors
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import plain_tokenizer

TEXTS = [*PROBES, "new york and New  York", "in 20231 there were cats", "café CAFÉ cafe\u0301"] * 4
_BYTES = P.ByteLevel.alphabet()
_SPLIT = Regex(r"\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+\n*|\s+")


def byte_level(normalizer=None, split=None, prefix=False) -> Tokenizer:
    """A byte-level BPE, as GPT-2's, with a splitting rule or a normaliser of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = P.ByteLevel(add_prefix_space=prefix)
    if split is not None:
        level = P.ByteLevel(add_prefix_space=prefix, use_regex=False)
        tokenizer.pre_tokenizer = P.Sequence([P.Split(split, "isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=_BYTES, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def word_piece(lowercase: bool) -> Tokenizer:
    """A WordPiece, as BERT's."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = N.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = P.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    pair = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=pair
    )
    return tokenizer


def unigram() -> Tokenizer:
    """A Unigram with a normaliser of its own, as XLM-R's and T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = N.Sequence([N.Lowercase(), N.NFD(), N.StripAccents()])
    tokenizer.pre_tokenizer = P.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


#: Tokenizers, and the class that their tokenizer_config.json names.
CASES = {
    "as GPT-2": (byte_level(), "GPT2Tokenizer"),
    "digits apart": (byte_level(split=_SPLIT), "GPT2Tokenizer"),
    "lower case": (byte_level(N.Lowercase()), "GPT2Tokenizer"),
    "NFC": (byte_level(N.NFC()), "Qwen2Tokenizer"),
    "prefix space": (byte_level(prefix=True), "GPT2Tokenizer"),
    "RoBERTa, lower case": (byte_level(N.Lowercase()), "RobertaTokenizer"),
    "cased BERT": (word_piece(lowercase=False), "BertTokenizer"),
    "uncased BERT": (word_piece(lowercase=True), "BertTokenizer"),
    "T5 without accents": (unigram(), "T5Tokenizer"),
    "XLM-R without accents": (unigram(), "XLMRobertaTokenizer"),
    "any class": (byte_level(split=_SPLIT), "PreTrainedTokenizerFast"),
    "no class": (byte_level(split=_SPLIT), None),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A tokenizer, the folder that it was saved to, and the class that is named there."""
    tokenizer, kind = CASES[request.param]
    folder = tmp_path / "tok"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    if kind is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return tokenizer, folder, kind


def test_ids_pieces_and_specials_are_those_of_the_file(case):
    tokenizer, folder, _ = case
    for loaded in (load_tokenizer(folder), load_tokenizer(folder / "tokenizer.json")):
        for text in TEXTS:
            expected = tokenizer.encode(text)
            assert loaded(text)["input_ids"] == expected.ids
            plain = Tokenizer.from_str(plain_tokenizer(loaded))
            assert plain.encode(text, add_special_tokens=False).tokens == (
                tokenizer.encode(text, add_special_tokens=False).tokens
            )
            assert loaded.decode(expected.ids) == tokenizer.decode(expected.ids, False)
        assert loaded.get_vocab() == tokenizer.get_vocab()
        added = tokenizer.get_added_tokens_decoder()
        assert set(loaded.all_special_ids) == {i for i, token in added.items() if token.special}


def test_counting_by_a_folder_a_file_and_by_hand_agree(case, tmp_path, capsys):
    tokenizer, folder, _ = case
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    expected = Counter()
    for text in TEXTS:
        expected.update(tokenizer.encode(text, add_special_tokens=False).ids)
    for which in (folder, folder / "tokenizer.json"):
        out = tmp_path / "o.npz"
        words = ("count", corpus, "--tokenizer", which, "--out", out, "--workers", 1, "--quiet")
        assert main([str(word) for word in words]) == 0
        unigrams = Counts.load(out).unigrams
        assert {i: n for i, n in enumerate(unigrams.tolist()) if n} == dict(expected)


def test_where_the_class_disagrees_an_example_says_so(case):
    tokenizer, folder, _ = case
    sentence = disagreement(folder)
    rebuilt = _rebuilt(folder)

    def plain(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    differs = [text for text in PROBES if rebuilt(text) != plain(text)]
    assert (sentence is None) == (not differs)
    if differs:
        assert repr(differs[0]) in sentence
        assert "\n" not in sentence


def _rebuilt(folder):
    """The ids that transformers' own class gives."""
    from transformers import AutoTokenizer

    backend = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    plain = Tokenizer.from_str(backend.to_str())
    return lambda text: plain.encode(text, add_special_tokens=False).ids


def test_most_of_these_classes_do_disagree(tmp_path):
    """Else the tests above would hold of any loader."""
    sentences = []
    for number, (tokenizer, kind) in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
        sentences.append(disagreement(folder))
    assert sum(sentence is not None for sentence in sentences) >= 6


# ---- special tokens ------------------------------------------------------------------------


def test_special_tokens_are_named_by_config_or_class(tmp_path):
    CASES["as GPT-2"][0].save(str(tmp_path / "tokenizer.json"))
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "GPT2Tokenizer"}')  # as GPT-2's, which names none
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.eos_token == tokenizer.bos_token == "<|endoftext|>"
    assert tokenizer.eos_token_id == tokenizer.get_vocab()["<|endoftext|>"]
    config.write_text('{"eos_token": {"content": "</s>"}, "pad_token": "[not in the file]"}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.eos_token == "</s>"
    assert tokenizer.pad_token_id is None
    assert "[not in the file]" not in tokenizer.get_vocab()


def small(folder, size=64, extra=(), unk="w3"):
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(size)}, unk_token=unk))
    words.pre_tokenizer = P.Whitespace()
    words.add_special_tokens([AddedToken(token, special=True) for token in extra])
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token=unk).save_pretrained(folder)
    return folder


def test_added_tokens_without_embeddings_are_left_out_and_said(tmp_path, capsys):
    small(tmp_path, 64, ["<image_soft_token>"])
    assert max(load_tokenizer(tmp_path).get_vocab().values()) == 64
    tokenizer = load_tokenizer(tmp_path, rows=64)
    assert "<image_soft_token>" in capsys.readouterr().err
    assert max(tokenizer.get_vocab().values()) == 63
    assert tokenizer("w1 w2")["input_ids"] == [1, 2]
    assert max(tokenizer("<image_soft_token>")["input_ids"]) < 64
    with pytest.raises(CorpusError, match=naming("63", "0 to 62")):
        load_tokenizer(tmp_path, rows=63)


# ---- damage --------------------------------------------------------------------------------


def complaint(folder) -> str:
    with pytest.raises(CorpusError) as error:
        load_tokenizer(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600 + len(str(folder))
    return str(error.value)


def test_folders_without_a_tokenizer(tmp_path):
    assert "holds no tokenizer.json" in complaint(tmp_path)
    assert "holds no tokenizer.json" in complaint(tmp_path / "nowhere")


def test_a_panic_of_the_library_is_one_sentence(tmp_path, capfd):
    CASES["as GPT-2"][0].save(str(tmp_path / "tokenizer.json"))
    parts = json.loads((tmp_path / "tokenizer.json").read_text())
    parts["model"]["continuing_subword_prefix"] = "##"
    (tmp_path / "tokenizer.json").write_text(json.dumps(parts))
    assert "out of range" in complaint(tmp_path) or "slice index" in complaint(tmp_path)
    assert "panicked" in capfd.readouterr().err  # else the library has changed, and this is idle


def test_a_keyboard_interrupt_is_none_of_its_errors():
    with pytest.raises(KeyboardInterrupt), tokenizer_errors("nothing"):
        raise KeyboardInterrupt


def test_a_wordpiece_without_its_unknown_token(tmp_path):
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\n[PAD]\n[MASK]\nnew\nyork\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert "[UNK]" in complaint(tmp_path)


def test_merges_that_do_not_fit_their_vocabulary(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "<|endoftext|>": 2}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    complaint(tmp_path)


_SMALL = CASES["as GPT-2"][0].to_str()
_PLACES = [
    ("model",), ("model", "vocab"), ("model", "merges"), ("model", "type"), ("added_tokens",),
    ("model", "unk_token"), ("model", "continuing_subword_prefix"), ("normalizer",),
    ("pre_tokenizer",), ("pre_tokenizer", "type"), ("post_processor",), ("decoder",),
    ("truncation",), ("padding",), ("version",), ("model", "dropout"), ("model", "fuse_unk"),
]  # fmt: skip
_VALUES = st.sampled_from(
    [None, 0, -1, 2**63, 1.5, "", "##", "x" * 500, "é\ud800", [], {}, [[]], {"type": "x"}, True,
     {"a": 0, "b": 0}, {"a": -1}, {"a": 2**40}, [["a"]], [{"id": 0, "content": ""}]]
)  # fmt: skip


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.sampled_from(_PLACES), value=_VALUES, kind=st.sampled_from(["GPT2Tokenizer", None]))
def test_a_changed_file_is_read_or_refused_in_one_sentence(tmp_path, place, value, kind):
    parts = json.loads(_SMALL)
    inner = parts
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(parts))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    try:
        tokenizer = load_tokenizer(tmp_path)
        by_file = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        same = np.array_equal(tokenizer("new york")["input_ids"], by_file.encode("new york").ids)
    except CorpusError as error:
        same = "\n" not in str(error)
    assert same
