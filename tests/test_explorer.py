"""The explorer's data: right, safe for a page, the same every time, made only when needed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hostile import HOSTILE, tiny
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import layers, publishing, texts
from lnattn import fold, load_first_layer, six_terms
from lnattn.errors import ResultError, TokenError
from lnattn.models.choice import Choice
from lnattn.text.tokenizers import encode_documents
from lnattn_book.studies.affinity_study import counts_and_source

# ---- Scripts -------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Po", "Sm", "L"]))


def value_of(text: str) -> tuple[str, Any]:
    """Name and value of a script that `script` wrote. Raises ValueError for any other text."""
    plainly, deflated = r'\(("[^"]*"), (.*)', r'Packed\(("[^"]*"), "([^"]*)", (true|false)'
    pattern = rf"lnattnExplorer\.receive(?:{plainly}|{deflated})\);\n"
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ValueError("this is no script that hands over one value.")
    plain_name, plain, name, packed, is_json = found.groups()
    if plain_name:
        return json.loads(plain_name), json.loads(plain)
    data = zlib.decompress(base64.b64decode(packed, validate=True))
    return json.loads(name), json.loads(data) if is_json == "true" else data


@settings(max_examples=200, deadline=None)
@given(value=st.recursive(ANY_TEXT | st.integers(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_text_survives_a_script_as_plain_ascii(value) -> None:
    literal = texts.script_literal(value)
    assert json.loads(literal) == value
    assert re.fullmatch(r"[ -~]*", literal)
    assert not re.search("[<>&]", literal)


@settings(deadline=None)  # a machine may be slow
@given(st.binary(max_size=60))
def test_a_long_value_is_packed_and_found_again(letters: bytes) -> None:
    text = letters.decode("utf-8", errors="surrogateescape")
    for value in ({"letters": text * 400, "numbers": [*range(1000)]}, letters):
        written = texts.script("a/<b>", value)
        assert value_of(written) == ("a/<b>", value)
        assert re.fullmatch(r"[ -~]*\n", written)
        assert not re.search("[<>&]", written)
        assert len(written) < 10_100  # what is not short is packed


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        texts.script_literal([float("nan")])


# ---- A model -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book_values() -> dict[str, dict]:
    """What the scripts of the embedded models hand over."""
    return {
        name: {
            file: value_of(text)[1]
            for file, text in layers.scripts_of(load_first_layer(name), name, sentence)
        }
        for name, sentence in (("book-gpt2", publishing.sentences()[0]), ("book-llama", ""))
    }


def blocks_of(values: dict) -> list[tuple[dict, dict]]:
    """The tensors of each block of embeddings, and what it says of itself, in the order of ids."""
    number = len([name for name in values if name.startswith("rows-")])
    return [opened(values[f"rows-{i}.js"]) for i in range(number)]


@pytest.mark.parametrize("name", ["book-gpt2", "book-llama"])
def test_the_embedded_models_weights_are_written_whole(book_values, name) -> None:
    model, values = load_first_layer(name), book_values[name]
    tensors = load(values["layer.js"])
    assert all(tensor.dtype == np.float16 for tensor in tensors.values())
    blocks = [block["W_E"] for block, _ in blocks_of(values)]
    assert {block.shape for block in blocks} == {(64, 256)}
    rows = model.embeddings.rows(slice(None)) if name == "book-llama" else model.embeddings.W_E
    np.testing.assert_array_equal(np.concatenate(blocks), rows)
    if name == "book-gpt2":
        assert len(tensors["positions"]) == 64
        positions = [tensors["positions"], load(values["places.js"])["positions"]]
        np.testing.assert_array_equal(np.concatenate(positions), model.embeddings.W_P)
    np.testing.assert_array_equal(tensors["gamma"], model.attention.ln.gamma)
    for one in ("W_Q", "W_K"):
        heads = getattr(model.attention, one)
        np.testing.assert_array_equal(tensors[one], np.hstack(list(heads)))


def test_blocks_say_what_they_hold_and_which_are_frequent(book_values) -> None:
    """No block of other weights or of other tokens can be taken for one of these."""
    editions = set()
    for name, values in book_values.items():
        _, told = opened(values["layer.js"])
        blocks = blocks_of(values)
        assert {about["edition"] for _, about in blocks} == {told["rows"]["edition"]}
        assert [about["first"] for _, about in blocks] == list(range(0, 8192, 64))
        assert (told["rows"]["block"], told["rows"]["dtype"]) == (64, "F16")
        often = counts_and_source(load_first_layer(name))[0].unigrams
        by_block = [int(often[64 * i : 64 * i + 64].sum()) for i in told["rows"]["order"]]
        assert by_block == sorted(by_block, reverse=True)
        assert sorted(told["rows"]["order"]) == list(range(128))
        assert by_block[0] > 10 * by_block[64] > 0, "the order matters"
        editions.add(told["rows"]["edition"])
    assert opened(book_values["book-gpt2"]["places.js"])[1]["edition"] in editions
    assert len(editions) == 2


def test_models_that_the_page_cannot_show_are_refused(monkeypatch) -> None:
    model = load_first_layer("book-llama")
    for more in ({"soft_cap": 3.0}, {"clip": 1.0}, {"rotation": None}):
        other = replace(model, attention=replace(model.attention, **more))
        with pytest.raises(ResultError, match="first layer"):
            next(layers.scripts_of(other, "m"))
    with pytest.raises(TokenError, match="tokenizer"):
        next(layers.scripts_of(replace(model, tokenizer=None), "m"))
    monkeypatch.setattr(layers, "MOST", 1000)
    with pytest.raises(ResultError, match="4 MB"):
        next(layers.scripts_of(model, "m"))


def test_a_first_sentence_brings_its_queries_and_keys_in_parts(book_values) -> None:
    """Side by side for all heads; a part that all tokens share is there for each of them."""
    model, sentence = load_first_layer("book-gpt2"), publishing.sentences()[0]
    ids = next(iter(encode_documents([sentence], model.tokenizer, 64)))
    terms = six_terms(fold(model.attention), model.embeddings, ids)
    tensors, about = opened(book_values["book-gpt2"]["opening.js"])
    parts = {"q": terms.query_parts, "k": terms.key_parts}
    assert set(tensors) == {f"{side}.{name}" for side in parts for name in parts[side]}
    assert {len(tensor) for tensor in tensors.values()} == {len(ids)}
    width = model.attention.W_Q.shape[2]
    for side, of_side in parts.items():
        for name, vectors in of_side.items():
            for head, token in ((0, 0), (2, 3)):
                wanted = vectors[head, token if vectors.shape[1] > 1 else 0]
                written = tensors[f"{side}.{name}"][token, head * width : (head + 1) * width]
                np.testing.assert_array_equal(written, wanted.numpy().astype(np.float16))
    assert about["text"] == sentence
    assert "".join(about["tokens"]).strip().endswith(sentence[-5:])
    assert about["heads"] == model.attention.n_heads
    assert "opening.js" not in book_values["book-llama"]


def opened(data: bytes) -> tuple[dict, dict]:
    """The tensors of a safetensors file, and what it says of itself."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return load(data), json.loads(header["__metadata__"]["about"])


def test_the_page_is_told_what_it_computes_with(book_values) -> None:
    for name, norm, places in (("book-gpt2", "layer", "learned"), ("book-llama", "rms", "rotary")):
        model = load_first_layer(name)
        tensors, about = opened(book_values[name]["layer.js"])
        d, heads = model.attention.W_Q.shape[1], model.attention.W_Q.shape[0]
        assert (about["d"], about["heads"], about["norm"]) == (d, heads, norm)
        assert about["positionsAre"] == places
        assert ("beta" in tensors) == (norm == "layer")
        assert ("positions" in tensors) == (places == "learned")
        assert tensors["b_Q"].ndim == 1
    assert about["places"] == 128, "twice the longest sentence"
    width = model.attention.W_Q.shape[2]
    turns = 1 / 10_000 ** (np.arange(0, width, 2) / width)
    np.testing.assert_allclose(tensors["frequencies"], turns, rtol=1e-3)


@pytest.mark.parametrize(("context", "places"), [(None, 128), (50, 50), (4096, 128)])
def test_rotary_positions_are_those_of_two_sentences_or_of_the_model(context, places) -> None:
    model = replace(load_first_layer("book-llama"), context=context)
    assert layers.weights(model)[1]["places"] == places


def test_other_turns_are_refused() -> None:
    """Interleaved, of a part of a head alone, or stretched."""
    model = load_first_layer("book-llama")
    width = model.attention.W_Q.shape[2]
    layers.frequencies(model, width)
    with pytest.raises(ResultError, match="only a part"):
        layers.frequencies(model, width + 2)
    with pytest.raises(ResultError, match="only a part"):
        layers.frequencies(model, width - 2)

    class Rotation:
        interleaved = False

        def tables(self, places, dtype):
            cos, sin = model.attention.rotation.tables(places, dtype)
            return 2 * cos, 2 * sin

    class Interleaved(Rotation):
        interleaved = True

        def tables(self, places, dtype):
            return model.attention.rotation.tables(places, dtype)

    for rotation, problem in ((Rotation(), "stretches"), (Interleaved(), "more in its first")):
        layer = SimpleNamespace(
            norm_Q=None, norm_K=None, clip=None, soft_cap=None, bias=None, sinks=None,
            rotation=rotation, ln=1,
        )  # fmt: skip
        with pytest.raises(ResultError, match=problem):
            layers.frequencies(SimpleNamespace(attention=layer), width)
    layer.rotation, layer.ln = model.attention.rotation, None
    with pytest.raises(ResultError, match="more in its first"):
        layers.frequencies(SimpleNamespace(attention=layer), width)


# ---- Publishing ----------------------------------------------------------------------------------


@pytest.fixture
def cheap(monkeypatch):
    """Models that cost nothing."""

    def load_model(choice: Choice):
        if choice.name == "partial":
            raise TokenError("this checkpoint has no token embeddings; load a complete model.")
        return tiny()

    monkeypatch.setattr("lnattn.models.checkpoints.load_first_layer", load_model)


def wanted(*names: str) -> list[publishing.Wanted]:
    return [publishing.Wanted(Choice(name, "a reason")) for name in names]


def test_data_are_those_of_the_models_that_were_asked_for(cheap, tmp_path) -> None:
    place = tmp_path / "explorer"
    publishing.publish(place, wanted("old"))
    publishing.publish(place, wanted("one", "Two/Name v2"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "shared.js").write_text("own")
    with pytest.raises(FileExistsError, match="no explorer's"):
        publishing.publish(tmp_path / "mine", wanted("one"))
    assert (tmp_path / "mine" / "shared.js").read_text() == "own"
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert {path.parent.name for path in files} == {"explorer", "one", "name-v2"}
    publishing.publish(place, wanted("one", "Two/Name v2"))
    assert files == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_the_page_opens_on_minilm_and_tells_no_log_of_the_chapters_model(monkeypatch) -> None:
    monkeypatch.delenv("LNATTN_ROTARY", raising=False)
    for name in ("book-gpt2", "gpt2"):
        log = Choice(name, "the cache lacks GPT-2's weights and the hub does not answer")
        monkeypatch.setattr(publishing, "default_model", lambda log=log: log)
        models = publishing.wanted_models()
        assert models[0].choice.name == "minilm"
        assert len({one.folder for one in models}) == len(models)
        assert not any("cache" in one.choice.why for one in models)
        assert name in [one.choice.name for one in models]


def test_what_a_first_view_loads_is_of_the_first_model_with_a_sentence(cheap, tmp_path) -> None:
    place, later = tmp_path / "explorer", publishing.Wanted(Choice("two", "why"), opening=True)
    publishing.publish(place, [*wanted("one"), later])
    assert not (place / "one" / "opening.js").exists()
    shared, first = publishing.opening_scripts(place)
    assert shared == "shared.js"
    assert re.fullmatch(r"two/opening\.js\?v=[0-9a-f]{8}", first)
    _, told = value_of((place / "shared.js").read_text())
    assert [(one["folder"], one["why"], one["opening"]) for one in told["models"]] == [
        ("one", "a reason", False),
        ("two", "why", True),
    ]
    assert {len(one["version"]) for one in told["models"]} == {8}
    for one in told["models"]:
        files = {path.stem: path.stat().st_size for path in (place / one["folder"]).iterdir()}
        assert one["vocab"] == len(HOSTILE)
        assert one["heads"] == 3
        assert one["bytes"] == {"rows": files.pop("rows-0"), **files}
    assert "ee" in told["terms"]
    assert told["terms"]["ed"]["colour"] != told["terms"]["ee"]["colour"]
    assert (told["longest"], told["text"]) == (64, publishing.sentences()[0])
    _, merges = value_of((place / "gpt2.js").read_text())
    assert len(merges.splitlines()) == 50_001, "a line on its version, and the merges"
    opening = value_of((place / "two" / "opening.js").read_text())[1]
    assert opened(opening)[1]["text"] == publishing.sentences()[0]
    publishing.publish(tmp_path / "deep" / "er", wanted("one"))
    assert publishing.opening_scripts(tmp_path / "deep" / "er") == []


@pytest.mark.parametrize("why", ["a reason", "a long reason " * 200])
def test_what_opens_is_found_in_a_short_list_and_in_a_deflated_one(cheap, tmp_path, why) -> None:
    place = tmp_path / "explorer"
    publishing.publish(place, [publishing.Wanted(Choice("two", why), opening=True)])
    assert ("receivePacked" in (place / "shared.js").read_text()) == (len(why) > 2000)
    assert publishing.opening_scripts(place)[1].startswith("two/opening.js?v=")


def test_rotary_models_that_were_named_are_there(monkeypatch) -> None:
    monkeypatch.setattr(publishing, "default_model", lambda: Choice("book-gpt2", ""))
    monkeypatch.setenv("LNATTN_ROTARY", "mine other")
    names = {one.choice.name: one for one in publishing.wanted_models()}
    assert list(names) == ["minilm", "book-gpt2", "mine", "other", "book-llama"]
    assert names["mine"].choice.why == "named by LNATTN_ROTARY"
    assert [name for name, one in names.items() if one.opening] == ["minilm", "book-gpt2"]
    monkeypatch.delenv("LNATTN_ROTARY")
    assert len(publishing.wanted_models()) == 3


def test_every_link_of_a_chapter_names_its_model(monkeypatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # no hub is asked for its models
    """Else a link shows the model of the page's opening, and the chapter is about another."""
    links = [
        link
        for path in sorted((publishing.ASSETS.parents[3] / "notebooks").glob("*.md"))
        for link in re.findall(r"\{try-this\}`([^`]*)`", path.read_text("utf-8"))
    ]
    assert len(links) >= 3
    known = {one.folder for one in publishing.wanted_models()}
    for link in links:
        view = dict(parse_qsl(link, strict_parsing=True))
        assert view["model"] in known, link
        assert "token" in view or ("head" in view) == ("query" in view), link


def test_a_model_that_cannot_be_shown_is_named_with_the_reason(cheap, tmp_path) -> None:
    publishing.publish(tmp_path / "e", wanted("partial", "one"))
    name, shared = value_of((tmp_path / "e" / "shared.js").read_text())
    assert name == "shared"
    assert [model["name"] for model in shared["models"]] == ["one"]
    assert shared["absent"][0]["name"] == "partial"
    assert "no token embeddings" in shared["absent"][0]["why"]
    assert set(shared["terms"]) == {"ee", "ep", "pe", "pp", "e", "p", "ed", "d"}
    assert shared["text"] in shared["examples"]


def test_scripts_never_make_markup_of_text_nor_ask_another_host() -> None:
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
    for path in publishing.ASSETS.glob("*.js"):
        found = re.search(
            rf"{markup}|https?://(?!www\.w3\.org/2000/svg\")|\bfetch\(", path.read_text("utf-8")
        )
        assert not found, f"{path.name}: {found}"


def test_rows_are_packed_without_loss_or_as_bytes_with_the_scale_of_each_row():
    halves = np.array([[0.5, -2.0, 0.125], [0.0, 0.0, 0.0]], dtype=np.float32)
    (name, exact), *more = layers.packed(halves).items()
    assert (name, exact.dtype, more) == ("W_E", np.float16, [])
    np.testing.assert_array_equal(exact, halves)
    rows = np.array([[0.4, -25.4, 12.4], [0.0, 0.0, 0.0], [3.0, 1.0, -0.1]], dtype=np.float32)
    found = layers.packed(rows)
    # The largest of a row is 127 or −127: scales 0.2, 1 and 3/127.
    assert found["W_E"].tolist() == [[2, -127, 62], [0, 0, 0], [127, 42, -4]]
    np.testing.assert_allclose(found["W_E.scale"], [0.2, 1, 3 / 127], rtol=1e-6)
