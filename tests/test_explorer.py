"""The explorer's data: right, safe for a page, the same every time, made only when needed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hostile import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import layers, publishing, texts
from lnattn import load_first_layer
from lnattn.errors import ResultError, TokenError
from lnattn.models.choice import Choice

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


@given(st.binary(max_size=60))
def test_a_long_value_is_packed_and_found_again(letters: bytes) -> None:
    text = letters.decode("utf-8", errors="surrogateescape")
    for value in ({"letters": text * 400, "numbers": [*range(1000)]}, letters):
        written = texts.script("a/<b>", value)
        assert value_of(written) == ("a/<b>", value)
        assert re.fullmatch(r"[ -~]*\n", written)
        assert not re.search("[<>&]", written)
        assert len(written) < 10_100  # what is not short is packed


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


@pytest.mark.parametrize("name", ["book-gpt2", "book-llama"])
def test_the_embedded_models_weights_are_written_whole(book_values, name) -> None:
    model, values = load_first_layer(name), book_values[name]
    tensors = load(values["layer.js"]) | load(values["rows.js"])
    assert all(tensor.dtype == np.float16 for tensor in tensors.values())
    rows = model.embeddings.rows(slice(None)) if name == "book-llama" else model.embeddings.W_E
    np.testing.assert_array_equal(tensors["W_E"], rows)
    np.testing.assert_array_equal(tensors["gamma"], model.attention.ln.gamma)
    for one in ("W_Q", "W_K"):
        heads = getattr(model.attention, one)
        np.testing.assert_array_equal(tensors[one], np.hstack(list(heads)))


def test_models_that_the_page_cannot_show_are_refused(monkeypatch) -> None:
    model = load_first_layer("book-llama")
    for more in ({"soft_cap": 3.0}, {"clip": 1.0}, {"rotation": None}):
        other = replace(model, attention=replace(model.attention, **more))
        with pytest.raises(ResultError, match="more in its first layer"):
            next(layers.scripts_of(other, "m"))
    with pytest.raises(TokenError, match="no tokenizer"):
        next(layers.scripts_of(replace(model, tokenizer=None), "m"))
    monkeypatch.setattr(layers, "MOST", 1000)
    with pytest.raises(ResultError, match="its embeddings take 4 MB"):
        next(layers.scripts_of(model, "m"))


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


def test_every_link_of_a_chapter_names_its_model() -> None:
    """Else a link shows the model of the page's opening, and the chapter is about another."""
    links = [
        link
        for path in sorted((publishing.ASSETS.parents[3] / "notebooks").glob("*.md"))
        for link in re.findall(r"\{try-this\}`([^`]*)`", path.read_text("utf-8"))
    ]
    assert len(links) >= 7
    known = {one.folder for one in publishing.wanted_models()}
    for link in links:
        view = dict(parse_qsl(link, strict_parsing=True))
        assert view["model"] in known, link
        assert ("head" in view) == ("query" in view), link


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
        found = re.search(rf"{markup}|https?://|\bfetch\(", path.read_text("utf-8"))
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
