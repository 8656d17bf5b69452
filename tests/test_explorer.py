"""The token explorer's data: right, safe for a page, the same every time, made only when needed."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hostile import HOSTILE, explored, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from booksite.explorer import data, digits, first_layer, scripts, texts, views
from booksite.explorer import written as whole
from booksite.explorer.texts import value_of
from lnattn import fold, load_first_layer, six_terms
from lnattn.attention.distance import DISTANCE_TERMS
from lnattn.attention.terms import TERMS
from lnattn.errors import ResultError, TokenError
from lnattn.models.choice import Choice
from lnattn.paths import repository
from lnattn.studies.affinity.vectors import ranks, token_vectors
from lnattn.studies.contribution.study import kl_of_removal
from lnattn.studies.position.bias import share_of_context


@pytest.fixture(scope="module")
def shown() -> data.Explored:
    return explored()


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


@given(st.binary(max_size=60))
def test_a_long_value_is_packed_and_found_again(letters: bytes) -> None:
    value = {"letters": texts.text_of_bytes(letters) * 400, "numbers": [1, 2.5]}
    written = texts.script("a/<b>", value)
    assert texts.value_of(written) == ("a/<b>", value)
    assert re.fullmatch(r"[ -~]*\n", written)
    assert not re.search("[<>&]", written)
    assert len(written) < 10_100  # what is not short is packed


@pytest.mark.parametrize("text", ["", "alert(1);\n", 'lnattnExplorer.receive("a", 1);alert(1);\n'])
def test_only_scripts_of_one_value_are_read(text) -> None:
    with pytest.raises(ValueError, match=r"hands over one value|Extra data"):
        texts.value_of(text)


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


def lists_of(text: str, width: int) -> np.ndarray:
    """Pairs of an id and a number: [pair 2]."""
    step = scripts.ID_DIGITS + width
    pairs = np.array(digits.numbers(text, step))
    return np.stack([pairs // 64**width, pairs % 64**width], axis=1)


def test_partners_are_those_of_the_whole_table(shown) -> None:
    layer, _ = tiny()
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    table = (vectors.queries @ vectors.keys.mT).numpy()
    sides = [(table, shown.keys), (table.transpose(0, 2, 1), shown.queries)]
    for (scores, found), most in zip(sides, data.RANKS, strict=True):
        order = np.argsort(-scores, axis=-1, kind="stable")[..., :most]
        assert found.ids.tolist() == order.tolist()
        np.testing.assert_allclose(found.scores, np.take_along_axis(scores, order, -1), atol=1e-5)


def test_usual_predecessors_and_their_ranks(shown) -> None:
    layer, counts = tiny()
    times = counts.bigrams.toarray()
    right = np.where(times.max(axis=0) >= data.LEAST_COUNT, times.argmax(axis=0), -1)
    assert shown.main.tolist() == right.tolist()
    assert 5 < (right >= 0).sum() < len(right)
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    asked = np.flatnonzero(right >= 0)
    of_main = ranks(vectors, asked.tolist(), right[asked].tolist()).numpy()
    assert shown.main_rank[asked].tolist() == of_main.tolist()
    assert not shown.main_rank[right < 0].any()


def test_what_is_written_is_what_was_computed(shown, written) -> None:
    name, index = value_of(written["index.js"])
    assert (name, index["heads"], index["vocab"]) == ("tiny/index", 3, len(HOSTILE))
    assert value_of(written["tokens.js"]) == ("tiny/tokens", HOSTILE)
    assert index["auroc"][1][0] == pytest.approx(shown.study.mean_auroc()[1], abs=5.1e-4)
    name, shard = value_of(written["shard-0.js"])
    assert name == "tiny/shard-0"
    table, step = shown.counts.bigrams.toarray(), 1 / 2047
    for token in range(len(HOSTILE)):
        for side in ("keys", "queries"):
            listed = lists_of(shard[side][token], scripts.SCORE_DIGITS)
            right = getattr(shown, side)
            assert listed[:, 0].tolist() == right.ids[:, token].ravel().tolist()
            scores = (listed[:, 1] - 2048) * step * index["largest"]
            off = np.abs(scores - right.scores[:, token].ravel()).max()
            assert off <= 0.51 * step * index["largest"]
        assert shard["count"][token] == shown.counts.unigrams[token]
        auroc = np.array(digits.numbers(shard["auroc"][token], scripts.AUROC_DIGITS)) / 1000
        np.testing.assert_allclose(auroc, shown.study.auroc[:, token], atol=5.1e-4)
        rank = digits.numbers(shard["rank"][token], scripts.ID_DIGITS)
        assert rank == (shown.main_rank[token].tolist() if shown.main[token] >= 0 else [])
        assert shard["kinds"][token] == np.count_nonzero(table[:, token])
        for name, times in (("before", table[:, token]), ("after", table[token])):
            listed = lists_of(shard[name][token], scripts.COUNT_DIGITS)
            assert times[listed[:, 0]].tolist() == listed[:, 1].tolist()
            assert sorted(listed[:, 1], reverse=True) == listed[:, 1].tolist()
            left = np.delete(times, listed[:, 0])
            assert left.max() <= max(1, listed[:, 1].min(initial=99))
        assert left.max() < data.LEAST_COUNT or len(listed) == scripts.NEIGHBOURS
        if shown.main[token] >= 0:
            assert lists_of(shard["before"][token], scripts.COUNT_DIGITS)[0, 0] == shown.main[token]


def test_rare_tokens_keep_their_best_key(shown) -> None:
    some = explored(frequent=10, always=["City"])
    tokens = some.keys.tokens
    assert HOSTILE.index("City") in tokens
    assert len(tokens) == 11 - int(HOSTILE.index("City") in explored(frequent=10).keys.tokens)
    frequency = some.counts.unigrams
    left_out = np.setdiff1d(np.arange(len(HOSTILE)), tokens)
    others = tokens[tokens != HOSTILE.index("City")]
    assert frequency[others].min() >= frequency[left_out].max()
    assert some.keys.ids.tolist() == shown.keys.ids[:, tokens].tolist()
    _, shard = value_of(dict(scripts.scripts(some, "tiny", {}))["shard-0.js"])
    for token in range(len(HOSTILE)):
        assert bool(shard["keys"][token]) == bool(shard["auroc"][token]) == (token in tokens)


def test_a_model_that_the_browser_computes_has_no_lists() -> None:
    own = explored(listed=False)
    assert (own.keys, own.queries) == (None, None)
    written = dict(scripts.scripts(own, "tiny", {}))
    _, shard = value_of(written["shard-0.js"])
    assert {"keys", "queries"}.isdisjoint(shard)
    assert not any(shard["rank"])
    assert any(shard["before"])


def test_the_first_view_names_its_tokens_itself(shown, written) -> None:
    """So that it needs neither the vocabulary nor another shard."""
    _, index = value_of(written["index.js"])
    start = index["start"]
    assert index["names"][str(start)] == HOSTILE[start]
    needed = {int(token) for token in shown.keys.ids[:, start].ravel()}
    needed |= {int(token) for token in shown.queries.ids[:, start].ravel()}
    assert needed <= {int(token) for token in index["names"]}
    assert all(HOSTILE[int(token)] == text for token, text in index["names"].items())


def test_the_page_opens_on_a_strong_piece_of_a_word() -> None:
    text = [0, 1] * 30 + [2, 3] * 25 + [4, 5] * 40 + [6] * 90 + [7, 5] * 30
    counts = data.Counts.from_stream(np.array(text), 8)
    main = data.main_predecessors(counts)
    assert main[[1, 3, 5]].tolist() == [0, 2, 4]
    rank = np.full((8, 2), 9)
    rank[1], rank[3], rank[5] = [5, 1], [7, 1], [2, 2]
    pieces = ["a", "##b", "c", "##d", "e", "##f", "g", "h"]
    assert data.opening_token(counts, pieces, main, rank) == 1  # as good as 3, and more frequent
    assert data.opening_token(counts, ["x"] * 8, main, rank) == 1
    rank[6] = 1  # no piece
    assert data.opening_token(counts, pieces, main, rank) == 1
    assert data.opening_token(counts, ["x"] * 8, main, rank) == 6
    rank[1] = 3
    assert data.opening_token(counts, pieces, main, rank) == 3
    rare = data.Counts.from_stream(np.array([0, 1, 2, 3, 3]), 8)
    none = data.main_predecessors(rare)
    assert data.opening_token(rare, pieces, none, rank) == 3


def test_a_token_that_nothing_precedes() -> None:
    layer, _ = tiny(vocab=3)
    study = explored().study
    counts = data.Counts.from_stream(np.array([0, 1, 1, 0]), 3)
    auroc = study.auroc[:, :3].copy()
    auroc[:, 2] = np.nan
    study = replace(study, auroc=auroc, same_token=auroc)
    few = data.explore(layer, counts, study, texts=["a", "b", "c"])
    _, shard = value_of(dict(scripts.scripts(few, "t", {}))["shard-0.js"])
    assert few.keys.ids.shape == (3, 3, 3)
    assert (shard["auroc"][2], shard["rank"]) == ("", ["", "", ""])
    assert (shard["count"][2], shard["before"][2], shard["after"][2]) == (0, "", "")
    assert value_of(dict(scripts.scripts(few, "t", {}))["index.js"])[1]["aurocTokens"] == 2


# ---- Pairs and positions ----------------------------------------------------------------------


def test_pairs_are_the_strongest_of_all_and_of_the_text(shown) -> None:
    layer, counts = tiny()
    own = views._pairs(layer, replace(shown, counts=more(counts)))
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    table = (vectors.queries @ vectors.keys.mT).double().numpy()
    times = counts.bigrams.toarray() * views.SEEN
    differ = ~np.eye(len(HOSTILE), dtype=bool)
    for name, allowed in {"all": differ, "seen": differ & (times.T >= views.SEEN)}.items():
        for head, rows in enumerate(own[name]):
            scores = np.where(allowed, table[head], -np.inf)
            best = np.sort(scores.ravel())[::-1][: len(rows)]
            assert len(rows) == (3 if name == "all" else views.PAIRS), "the tiny study has three"
            np.testing.assert_allclose([row[2] for row in rows], best, atol=0.006)
            for query, key, score, count in rows:
                assert score == pytest.approx(table[head, query, key], abs=0.006)
                assert count == times[key, query]
                assert own["names"][query] == HOSTILE[query]


def more(counts):
    """The same text many times over."""
    return replace(counts, bigrams=counts.bigrams * views.SEEN)


def test_curves_are_those_of_chapter_07() -> None:
    layer, _ = tiny()
    written = dict(views.curve_scripts(fold(layer.attention), layer.embeddings, "t"))
    _, about = value_of(written["curves.js"])
    n = layer.embeddings.n_positions
    assert set(share_of_context(n)) <= set(about["queries"])
    assert set(written) == {"curves.js", *(f"curve-{i}.js" for i in about["queries"])}
    sigma = six_terms(fold(layer.attention), layer.embeddings, [0]).folded.eps
    inverse = torch.stack([
        1 / ((layer.embeddings.W_E.double() + row).var(dim=1, correction=0) + sigma).sqrt()
        for row in layer.embeddings.W_P.double()
    ]).mean(dim=1).numpy()  # fmt: skip
    folded = fold(layer.attention)
    keys = layer.embeddings.W_P.double() @ folded.W_K.double()
    right = (keys @ folded.b_Q.double()[:, :, None])[..., 0].numpy() * inverse
    step = np.abs(right).max() * 1e-5
    np.testing.assert_allclose(unpacked(about["p"]), right, atol=step)
    for i in about["queries"]:
        _, curve = value_of(written[f"curve-{i}.js"])
        compared = (layer.embeddings.W_P[i].double() @ folded.W_Q.double())[:, None] @ keys.mT
        right = compared[:, 0].numpy() * inverse[i] * inverse
        np.testing.assert_allclose(unpacked(curve), right, atol=np.abs(right).max() * 1e-5)


def unpacked(packed: dict) -> np.ndarray:
    width = packed["width"]
    whole = np.array(digits.numbers(packed["digits"], width)) - 64**width // 2
    return whole.reshape(len(packed["scales"]), -1) * np.array(packed["scales"])[:, None]


# ---- Sentences -----------------------------------------------------------------------------------


def test_the_first_sentence_is_the_one_in_which_a_term_moves_most() -> None:
    model = load_first_layer("book-gpt2").to(torch.float64)
    sentences = ["The city of New York.", "She said that she would not.", "the the the"]
    best = data.strongest_view(model, sentences)
    moved = {}
    for text in sentences:
        (ids,) = data.encode_sentences(model, [text])
        terms = six_terms(fold(model.attention), model.embeddings, ids)
        for name in TERMS:
            for head in range(terms.folded.n_heads):
                for query in range(len(ids)):
                    seen = [
                        part[head, query, : query + 1] / terms.folded.scale
                        for part in (terms.scores(), terms[name])
                    ]
                    moved[text, head, query, name] = float(kl_of_removal(*seen))
    text, head, query, _ = max(moved, key=moved.get)
    assert (best.text, best.head, best.query) == (text, head, query)
    with pytest.raises(ResultError, match="no sentence to open with"):
        data.strongest_view(model, [])


def test_the_first_sentence_is_written_in_full() -> None:
    model = load_first_layer("book-gpt2")
    opening = data.strongest_view(model, ["The city of New York."])
    name, value = value_of(scripts.sentence_script(opening, "m/opening"))
    assert (name, value["ids"]) == ("m/opening", list(opening.ids))
    assert value["tokens"][:3] == ["<|endoftext|>", "The", " city"]
    n = len(opening.ids)
    assert len(value["pairs"]["digits"]) == 4 * 8 * n * (n + 1) / 2 * 3
    assert len(value["keys"]["digits"]) == 2 * 8 * n * 3
    np.testing.assert_allclose(value["sigma"], opening.terms.sigma, rtol=1e-6)


def test_a_sentence_that_is_too_long_is_one_sentence() -> None:
    layer, _ = tiny()
    with pytest.raises(ResultError, match=r"more than \d+ tokens in tiny <b>model</b>; shorten it"):
        data.encode_sentences(layer, [" ".join("1" for _ in range(65))])
    near = replace(layer, attention=replace(layer.attention, window=4))
    with pytest.raises(ResultError, match="more than 4 tokens"):
        data.encode_sentences(near, ["1 2 3 4 5"])


# ---- The site ------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(written) -> None:
    again = dict(scripts.scripts(explored(), "tiny", {"name": "<tiny>"}))
    assert again == written


pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import publishing  # noqa: E402


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

    def explore(layer, counts, study, listed, always):
        return original(layer, counts, study, listed=listed, always=always, texts=HOSTILE)

    study = explored().study
    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", load)
    monkeypatch.setattr(whole, "counts_and_source", lambda _: (tiny()[1], {}))
    monkeypatch.setattr(whole, "affinity_study", lambda *_: (study, ""))
    monkeypatch.setattr(publishing, "execution_digest", lambda _root, model: f"digest of {model}")
    monkeypatch.setattr(whole, "explore", explore)
    monkeypatch.setattr(publishing, "sentences", lambda: ["3 1 4", "1 5"])
    return computed


def wanted(*names: str) -> list[publishing.Wanted]:
    return [publishing.Wanted(Choice(name, "a reason")) for name in names]


def test_data_are_made_once_and_again_when_something_is_missing(cheap, tmp_path) -> None:
    place = tmp_path / "explorer"
    publishing.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert cheap == ["one", "Two/Name v2"]
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert {path.parent.name for path in files} == {"explorer", "one", "name-v2"}
    publishing.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert len(cheap) == 2
    (place / "one" / "shard-0.js").unlink()
    publishing.publish(tmp_path, place, wanted("one", "Two/Name v2"))
    assert cheap == ["one", "Two/Name v2", "one"]
    assert files == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_model_that_is_no_longer_shown_leaves_no_data(cheap, tmp_path) -> None:
    place = tmp_path / "explorer"
    publishing.publish(tmp_path, place, wanted("one", "two"))
    shown = {path.relative_to(place) for path in place.rglob("*") if path.parent.name != "one"}
    (place / ".three.cut").mkdir()
    (place / ".three.cut" / "shard-0.js").write_text("half of a build")
    (place / "old.js").write_text("an asset with a former name")
    publishing.publish(tmp_path, place, wanted("two"))
    left = {path.relative_to(place) for path in place.rglob("*")}
    assert left == shown - {(place / "one").relative_to(place)}


def test_another_input_makes_them_anew(cheap, tmp_path, monkeypatch) -> None:
    publishing.publish(tmp_path, tmp_path / "e", wanted("one"))
    first = (tmp_path / "e" / "models.js").read_text()
    monkeypatch.setattr(publishing, "execution_digest", lambda _root, model: f"other {model}")
    publishing.publish(tmp_path, tmp_path / "e", wanted("one"))
    assert cheap == ["one", "one"]
    assert (tmp_path / "e" / "models.js").read_text() != first


def test_a_local_models_files_are_an_input(cheap, tmp_path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    publishing.publish(tmp_path, tmp_path / "e", wanted(str(folder)))
    (folder / "model.safetensors").write_text("other weights")
    publishing.publish(tmp_path, tmp_path / "e", wanted(str(folder)))
    assert len(cheap) == 2
    shutil.rmtree(folder)


def test_a_model_that_cannot_be_shown_is_named_with_the_reason(cheap, tmp_path) -> None:
    publishing.publish(tmp_path, tmp_path / "e", wanted("partial", "one"))
    name, listed = value_of((tmp_path / "e" / "models.js").read_text())
    assert name == "models"
    assert [model["name"] for model in listed["models"]] == ["one"]
    assert listed["absent"][0]["name"] == "partial"
    assert "no token embeddings" in listed["absent"][0]["why"]


def test_the_books_own_sentences_fit() -> None:
    sentences = publishing.sentences()
    assert len(sentences) == len(set(sentences)) >= 8
    encoded = data.encode_sentences(load_first_layer("book-gpt2"), sentences)
    assert all(ids[0] == 8191 for ids in encoded)


def test_all_parts_know_the_terms_by_name_and_colour(cheap, tmp_path) -> None:
    publishing.publish(tmp_path, tmp_path / "e", wanted("one"))
    _, value = value_of((tmp_path / "e" / "models.js").read_text())
    assert set(value["terms"]) == {*TERMS, *DISTANCE_TERMS}
    assert value["terms"]["ee"] == {"name": "token → token", "colour": "#0072B2"}
    for names in (TERMS, DISTANCE_TERMS):
        assert len({value["terms"][name]["colour"] for name in names}) == len(names)
    assert value["examples"] == publishing.sentences()


def test_the_embedded_model_brings_its_layer(tmp_path, monkeypatch) -> None:
    layer = load_first_layer("book-gpt2")
    study, counts = explored().study, tiny()[1]
    monkeypatch.setattr(publishing, "execution_digest", lambda *_: "digest")
    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", lambda _: layer)
    monkeypatch.setattr(whole, "counts_and_source", lambda _: (counts, {}))
    monkeypatch.setattr(whole, "affinity_study", lambda *_: (study, ""))
    monkeypatch.setattr(whole, "explore", lambda *_, **__: explored(listed=False))
    monkeypatch.setattr(whole, "view_scripts", lambda *_: ())  # of the tiny model, not of this one
    own = [publishing.Wanted(Choice("book-gpt2", "here"), computed=True)]
    publishing.publish(tmp_path, tmp_path / "e", own)
    names = {path.name for path in (tmp_path / "e" / "book-gpt2").iterdir()}
    assert {"layer.js", "rows-0.js", "rows-127.js", "opening.js", "tokens.js"} <= names
    _, value = value_of((tmp_path / "e" / "book-gpt2" / "opening.js").read_text())
    assert value["text"] in publishing.sentences()


def test_the_rotary_model_brings_its_layer(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(publishing, "execution_digest", lambda *_: "digest")
    own = [publishing.Wanted(Choice("book-llama", "here"), computed=True, rotary=True)]
    publishing.publish(tmp_path, tmp_path / "e", own)
    names = {path.name for path in (tmp_path / "e" / "book-llama").iterdir()}
    assert names == {
        *("layer.js", "tokens.js", "manifest.json"),
        *(f"rows-{number}.js" for number in range(128)),
    }
    _, value = value_of((tmp_path / "e" / "models.js").read_text())
    assert value["models"] == []
    assert [one["name"] for one in value["rotary"]] == ["book-llama"]
    assert set(value["rotary"][0]["tolerance"]) == set(first_layer.TOLERANCE)


def test_only_rotary_models_are_shown_by_four_terms() -> None:
    with pytest.raises(ResultError, match="positions of tiny <b>model</b> are not rotary"):
        whole.rotary(tiny()[0], "tiny")


def test_scripts_never_make_markup_of_text() -> None:
    code = "".join((publishing.ASSETS / name).read_text("utf-8") for name in publishing.SCRIPTS)
    for danger in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch("):
        assert danger not in code, danger


def test_a_model_without_its_layer_brings_the_examples(cheap, tmp_path) -> None:
    publishing.publish(tmp_path, tmp_path / "e", wanted("one"))
    _, value = value_of((tmp_path / "e" / "models.js").read_text())
    assert value["models"][0]["heads"] == 3
    layer, _ = tiny()
    for number, text in enumerate(value["examples"]):
        name, written = value_of((tmp_path / "e" / "one" / f"sentence-{number}.js").read_text())
        assert (name, written["text"]) == (f"one/sentence-{number}", text)
        terms = six_terms(fold(layer.attention), layer.embeddings, written["ids"])
        below = np.tril_indices(len(written["ids"]))
        right = np.concatenate([terms[term].numpy()[:, *below] for term in scripts.PAIR_TERMS])
        found = unpacked(written["pairs"])
        np.testing.assert_allclose(found, right, atol=first_layer.TOLERANCE["terms"])


def test_tokens_that_the_book_names_are_found_in_its_text(tmp_path) -> None:
    (tmp_path / "notebooks").mkdir()
    text = "Of *jackson*, **not** this, `##rim` and ' York'; a_*b*, {term}`x`, *two words*."
    (tmp_path / "notebooks" / "01.md").write_text(text)
    assert set(publishing.named_tokens(tmp_path)) == {
        *publishing.NAMED,
        "jackson",
        "##rim",
        " York",
    }
    assert {"jackson", "michael", "##rim"} <= set(publishing.named_tokens(repository()))


def test_the_model_and_minilm_are_wanted(monkeypatch) -> None:
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    right = ["minilm", "book-gpt2", "book-llama"]
    assert [one.folder for one in publishing.wanted_models()] == right
    assert [one.computed for one in publishing.wanted_models()] == [False, True, True]
    assert [one.rotary for one in publishing.wanted_models()] == [False, False, True]
    monkeypatch.setenv("LNATTN_MODEL", "minilm")
    assert [one.folder for one in publishing.wanted_models()] == right
