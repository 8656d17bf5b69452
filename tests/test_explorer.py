"""The token explorer's data: right, safe for a page, the same every time, made only when needed."""

from __future__ import annotations

import base64
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hostile import HOSTILE, explored, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from booksite.explorer import data, scripts, texts
from lnattn import fold, load_first_layer, six_terms
from lnattn.errors import ResultError, TokenError
from lnattn.models.choice import Choice
from lnattn.studies.affinity.vectors import token_vectors

SENTENCES = ["3 1 4 1 5", "0", "2 7 1 8 2 8 1 8"]


def value_of(text: str):
    """Name and value of a script, read with the two rules of JavaScript that JSON shares."""
    name, value = re.fullmatch(r"lnattnExplorer\.receive\((\"[^\"]*\"),(.*)\);\n", text).groups()
    return json.loads(name), json.loads(value)


@pytest.fixture(scope="module")
def shown() -> data.Explored:
    return explored(SENTENCES)


@pytest.fixture(scope="module")
def written(shown) -> dict[str, str]:
    return dict(scripts.scripts(shown, "tiny", {"name": "<tiny>"}))


# ---- Texts ---------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Po", "Sm", "L"]))


@settings(max_examples=200, deadline=None)
@given(value=st.recursive(ANY_TEXT | st.integers(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_text_survives_a_script_as_plain_ascii(value) -> None:
    literal = texts.script_literal(value)
    assert json.loads(literal) == value
    assert re.fullmatch(r"[ -~]*", literal)
    assert not re.search("[<>&]", literal)


def test_a_script_has_no_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        texts.script_literal([float("nan")])


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_different_bytes_have_different_texts(one: bytes, other: bytes) -> None:
    assert (texts.text_of_bytes(one) == texts.text_of_bytes(other)) == (one == other)
    assert texts.text_of_bytes(one).encode("utf-8", "surrogateescape") == one


def byte_level(pieces: list[str], added: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([added])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_pieces_of_a_byte_level_vocabulary_are_bytes() -> None:
    """The letters are those of the tokenizers library; every byte that UTF-8 can hold is tried."""
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    characters = [chr(code) for code in (*range(0x3000), 0xFFFD, 0x1F600, 0x10FFFF)]
    pieces = [splitter.pre_tokenize_str(character)[0][0] for character in characters]
    assert texts.token_texts(byte_level(pieces, "<s>"), len(pieces)) == characters
    both = zip(pieces, characters, strict=True)
    firsts = {piece[0]: character.encode()[0] for piece, character in both}
    halves = texts.token_texts(byte_level(list(firsts), "<s>"), len(firsts))
    found = [half.encode("utf-8", "surrogateescape") for half in halves]
    assert found == [bytes([byte]) for byte in firsts.values()]
    assert len(firsts) > 128
    both = byte_level(["Ġthe"], "Ġ</script>")
    assert texts.token_texts(both, 4) == [" the", "Ġ</script>", "", ""]


def test_other_vocabularies_are_shown_as_they_are() -> None:
    tokenizer = Tokenizer(models.WordPiece(vocab={"##ing": 0, "Ġ": 1, "[UNK]": 2}))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    assert texts.token_texts(wrapped, 3) == ["##ing", "Ġ", "[UNK]"]
    with pytest.raises(TokenError, match="no tokenizer"):
        texts.token_texts(None, 3)


def test_the_book_models_tokens_are_all_different() -> None:
    tokenizer = load_first_layer("book-gpt2").tokenizer
    found = texts.token_texts(tokenizer, len(tokenizer))
    assert len(set(found)) == len(found) == 8192
    assert found[-1] == "<|endoftext|>"
    ids = tokenizer(" the city", add_special_tokens=False)["input_ids"]
    assert [found[i] for i in ids] == [" the", " city"]


# ---- Numbers -------------------------------------------------------------------------------------


def test_partners_are_those_of_the_whole_table(shown) -> None:
    layer, counts = tiny()
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    table = (vectors.queries @ vectors.keys.mT).numpy()
    times = counts.bigrams.toarray()
    for side, (scores, pairs) in enumerate([(table, times.T), (table.transpose(0, 2, 1), times)]):
        order = np.argsort(-scores, axis=-1, kind="stable")[..., : data.RANKS]
        assert shown.partners.ids[side].tolist() == order.tolist()
        best = np.take_along_axis(scores, order, -1)
        np.testing.assert_allclose(shown.partners.scores[side], best, atol=1e-12)
        token = np.arange(len(HOSTILE))[None, :, None]
        assert shown.partners.bigrams[side].tolist() == pairs[token, order].tolist()
    assert (shown.partners.bigrams > 0).any()
    assert (shown.partners.bigrams == 0).any()


def test_what_is_written_is_what_was_computed(shown, written) -> None:
    name, index = value_of(written["index.js"])
    assert (name, index["heads"], index["vocab"]) == ("tiny/index", 3, len(HOSTILE))
    assert index["tokens"] == HOSTILE
    assert index["auroc"][1][0] == pytest.approx(shown.study.mean_auroc()[1], abs=5.1e-4)
    tokens = range(len(HOSTILE))
    for number, first in enumerate(tokens[:: scripts.PER_SHARD]):
        name, shard = value_of(written[f"shard-{number}.js"])
        assert name == f"tiny/shard-{number}"
        here = tokens[first : first + scripts.PER_SHARD]
        shape = (len(here), 2, 3, data.RANKS)
        ids = np.frombuffer(base64.b64decode(shard["ids"]), "<u2").reshape(shape)
        scores = np.frombuffer(base64.b64decode(shard["scores"]), "<i2").reshape(shape)
        for place, token in enumerate(here):
            assert ids[place].tolist() == shown.partners.ids[:, :, token].tolist()
            error = scores[place] / 10 ** index["decimals"] - shown.partners.scores[:, :, token]
            assert np.abs(error).max() <= 0.5 / 10 ** index["decimals"] + 1e-9
            true = shown.partners.bigrams[:, :, token].ravel()
            pairs = np.reshape(shard["bigrams"][place], (-1, 2))
            assert pairs[:, 0].tolist() == np.flatnonzero(true).tolist()
            assert pairs[:, 1].tolist() == true[true > 0].tolist()
            assert shard["count"][place] == shown.counts.unigrams[token]
            auroc = shown.study.auroc[:, token]
            assert shard["auroc"][place] == pytest.approx(auroc.tolist(), abs=5.1e-4)
            column = shown.counts.bigrams.toarray()[:, token]
            assert shard["kinds"][place] == np.count_nonzero(column)
            before = np.reshape(shard["before"][place], (-1, 2))
            most = sorted(column[column > 0], reverse=True)[: data.RANKS]
            assert before[:, 1].tolist() == most
            assert column[before[:, 0]].tolist() == before[:, 1].tolist()


def test_the_terms_of_a_sentence(shown, written) -> None:
    layer, _ = tiny()
    for number, sentence in enumerate(SENTENCES):
        ids = [int(word) for word in sentence.split()]
        _, value = value_of(written[f"sentence-{number}.js"])
        assert value["rows"] == ids
        terms, n = six_terms(fold(layer.attention), layer.embeddings, ids), len(ids)
        pairs = np.frombuffer(base64.b64decode(value["pairs"]), "<f4").reshape(4, 3, -1)
        keys = np.frombuffer(base64.b64decode(value["keys"]), "<f4").reshape(2, 3, n)
        at = 0
        for query in range(n):
            for key in range(query + 1):
                for place, name in enumerate(("ee", "ep", "pe", "pp")):
                    right = terms[name][:, query, key]
                    np.testing.assert_allclose(pairs[place, :, at], right, rtol=1e-6, atol=1e-6)
                at += 1
        assert at == pairs.shape[-1]
        for place, name in enumerate(("e", "p")):
            np.testing.assert_allclose(keys[place], terms[name][:, 0], rtol=1e-6, atol=1e-6)


def test_a_model_without_causal_mask_keeps_all_pairs() -> None:
    layer, counts = tiny()
    layer = replace(layer, attention=replace(layer.attention, causal=False))
    study = explored([]).study
    both = data.explore(layer, counts, study, ["3 1 4"], texts=HOSTILE)
    files = dict(scripts.scripts(both, "tiny", {}))
    assert value_of(files["index.js"])[1]["causal"] is False
    _, value = value_of(files["sentence-0.js"])
    pairs = np.frombuffer(base64.b64decode(value["pairs"]), "<f4").reshape(4, 3, 3, 3)
    terms = both.terms(0)
    np.testing.assert_allclose(pairs[0], terms.ee, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pairs[2], terms.pe, rtol=1e-5, atol=1e-6)


def test_a_large_vocabulary_shows_its_most_frequent_tokens() -> None:
    some = explored(["3 1 4"], limit=10)
    counts = tiny()[1]
    assert {1, 3, 4} < set(some.tokens.tolist())
    assert len(some.tokens) == 10
    assert some.tokens.tolist() == sorted(some.tokens.tolist())
    left_out = np.setdiff1d(np.arange(len(HOSTILE)), some.tokens)
    rest = np.setdiff1d(some.tokens, [1, 3, 4])
    assert counts.unigrams[rest].min() >= counts.unigrams[left_out].max()
    every = explored(["3 1 4"])
    assert some.partners.ids.tolist() == every.partners.ids[:, :, some.tokens].tolist()
    _, index = value_of(dict(scripts.scripts(some, "tiny", {}))["index.js"])
    assert index["ids"] == some.tokens.tolist()
    _, shard = value_of(dict(scripts.scripts(some, "tiny", {}))["shard-0.js"])
    assert set(map(int, shard["names"])).isdisjoint(some.tokens.tolist())
    assert all(HOSTILE[int(token)] == text for token, text in shard["names"].items())
    assert set(map(int, shard["names"])) >= set(some.partners.ids.ravel()) - set(some.tokens)
    with pytest.raises(ResultError, match="leaves no room for the 3"):
        explored(["3 1 4"], limit=2)


def test_tokens_without_predecessor_and_tiny_vocabularies() -> None:
    layer, _ = tiny(vocab=3)
    study = explored([]).study
    counts = data.Counts.from_stream(np.array([0, 1, 1, 0]), 3)
    auroc = study.auroc[:, :3].copy()
    auroc[:, 2] = np.nan
    study = replace(study, auroc=auroc, same_token=auroc)
    few = data.explore(layer, counts, study, [], texts=["a", "b", "c"])
    files = dict(scripts.scripts(few, "t", {}))
    assert few.partners.ids.shape == (2, 3, 3, 3)
    _, shard = value_of(files["shard-0.js"])
    assert shard["auroc"][2] == []
    assert (shard["count"][2], shard["before"][2], shard["after"][2]) == (0, [], [])
    assert value_of(files["index.js"])[1]["aurocTokens"] == 2


def test_the_first_view_is_of_a_known_word_or_a_frequent_token(shown) -> None:
    def first(texts) -> int:
        files = scripts.scripts(replace(shown, texts=texts), "tiny", {})
        return value_of(next(files)[1])[1]["start"]

    frequency = shown.counts.unigrams
    assert first(HOSTILE) == int(np.argmax(frequency))
    assert first([*HOSTILE[:5], " York", *HOSTILE[6:]]) == 5
    rarer = int(np.argmin(frequency))
    several = ["york" if i in (rarer, 5) else text for i, text in enumerate(HOSTILE)]
    assert first(several) == (5 if frequency[5] > frequency[rarer] else rarer)


def test_scores_that_do_not_fit_lose_decimals_before_they_are_refused() -> None:
    assert scripts.decimals(np.array([-327.67])) == 2
    assert scripts.decimals(np.array([327.68])) == 1
    assert scripts.decimals(np.array([-32767.0])) == 0
    assert scripts.decimals(np.zeros(0)) == 2
    with pytest.raises(ResultError, match="larger than the explorer can show"):
        scripts.decimals(np.array([32768.0]))


def test_a_sentence_that_is_too_long_is_one_sentence() -> None:
    with pytest.raises(ResultError, match=r"more than 20 tokens in tiny <b>model</b>; shorten it"):
        explored([" ".join("1" for _ in range(21))])
    layer, _ = tiny()
    near = replace(layer, attention=replace(layer.attention, window=4))
    with pytest.raises(ResultError, match="more than 4 tokens"):
        data.encode_sentences(near, ["1 2 3 4 5"])


# ---- The site ------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(written) -> None:
    again = dict(scripts.scripts(explored(SENTENCES), "tiny", {"name": "<tiny>"}))
    assert again == written


pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import page  # noqa: E402


@pytest.fixture
def cheap(monkeypatch):
    """Models that cost nothing: `computed` lists those that were asked for."""
    computed = []
    original = data.explore

    def load(choice: Choice):
        if choice.name == "partial":
            raise TokenError("this checkpoint has no token embeddings; load a complete model.")
        computed.append(choice.name)
        return tiny()[0]

    def explore(layer, counts, study, _sentences, limit):
        return original(layer, counts, study, SENTENCES, limit=limit, texts=HOSTILE)

    study = explored([]).study
    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", load)
    monkeypatch.setattr("lnattn.book.freezing.affinity_study", lambda _: (study, tiny()[1], ""))
    monkeypatch.setattr(page, "execution_digest", lambda _root, model: f"digest of {model}")
    monkeypatch.setattr(data, "explore", explore)
    return computed


def wanted(*names: str) -> list[page.Wanted]:
    return [page.Wanted(Choice(name, "a reason"), 8192) for name in names]


def test_data_are_made_once_and_again_when_something_is_missing(cheap, tmp_path) -> None:
    place = tmp_path / "explorer"
    page.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert cheap == ["one", "Two/Name v2"]
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert {path.parent.name for path in files} == {"explorer", "one", "name-v2"}
    page.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert len(cheap) == 2
    (place / "one" / "shard-0.js").unlink()
    page.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert cheap == ["one", "Two/Name v2", "one"]
    assert files == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_model_that_is_no_longer_shown_leaves_no_data(cheap, tmp_path) -> None:
    place = tmp_path / "explorer"
    page.publish(tmp_path, place, wanted("one", "two"))
    shown = {path.relative_to(place) for path in place.rglob("*") if path.parent.name != "one"}
    (place / ".three.cut").mkdir()
    (place / ".three.cut" / "shard-0.js").write_text("half of a build")
    (place / "old.js").write_text("an asset with a former name")
    page.publish(tmp_path, place, wanted("two"))
    left = {path.relative_to(place) for path in place.rglob("*")}
    assert left == shown - {(place / "one").relative_to(place)}


def test_another_input_makes_them_anew(cheap, tmp_path, monkeypatch) -> None:
    page.publish(tmp_path, tmp_path / "e", wanted("one"))
    first = (tmp_path / "e" / "models.js").read_text()
    monkeypatch.setattr(page, "execution_digest", lambda _root, model: f"other {model}")
    page.publish(tmp_path, tmp_path / "e", wanted("one"))
    assert cheap == ["one", "one"]
    assert (tmp_path / "e" / "models.js").read_text() != first


def test_a_local_models_files_are_an_input(cheap, tmp_path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    page.publish(tmp_path, tmp_path / "e", wanted(str(folder)))
    (folder / "model.safetensors").write_text("other weights")
    page.publish(tmp_path, tmp_path / "e", wanted(str(folder)))
    assert len(cheap) == 2
    shutil.rmtree(folder)


def test_a_model_that_cannot_be_shown_is_named_with_the_reason(cheap, tmp_path) -> None:
    page.publish(tmp_path, tmp_path / "e", wanted("partial", "one"))
    name, listed = value_of((tmp_path / "e" / "models.js").read_text())
    assert name == "models"
    assert [model["name"] for model in listed["models"]] == ["one"]
    assert listed["absent"][0]["name"] == "partial"
    assert "no token embeddings" in listed["absent"][0]["why"]


def test_the_books_own_sentences_fit_both_models() -> None:
    sentences = (page.ASSETS / "sentences.txt").read_text("utf-8").splitlines()
    assert len(sentences) == len(set(sentences)) >= 8
    encoded = data.encode_sentences(load_first_layer("book-gpt2"), sentences)
    assert all(ids[0] == 8191 for ids in encoded)
    try:
        minilm = load_first_layer("minilm")
    except Exception as error:
        pytest.skip(f"MiniLM absent: {error}")
    assert len(data.encode_sentences(minilm, sentences)) == len(sentences)


def test_scripts_never_make_markup_of_text() -> None:
    code = "".join((page.ASSETS / name).read_text("utf-8") for name in page.SCRIPTS)
    for danger in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch("):
        assert danger not in code, danger


def test_the_model_and_minilm_are_wanted(monkeypatch) -> None:
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    assert [one.folder for one in page.wanted_models()] == ["book-gpt2", "minilm"]
    monkeypatch.setenv("LNATTN_MODEL", "minilm")
    assert [one.folder for one in page.wanted_models()] == ["minilm"]
