"""What is no model but is given for one: each is told what it is, and what to give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import constants
from naming import naming

from lnattn import load_first_layer
from lnattn.errors import CheckpointError, HubError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A folder to stand in, without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(path: str, text: str = "{}") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def told(given: str | Path) -> str:
    """The one sentence that a wrong name is answered with."""
    with pytest.raises(CheckpointError) as refused:
        load_first_layer(given)
    said = str(refused.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said


FOLDERS = {
    "adapter": ({"adapter_config.json": json.dumps({"base_model_name_or_path": "a/b"})}, "of a/b"),
    "no base": ({"adapter_config.json": "[]"}, "holds an adapter alone; merge it"),
    "damaged": ({"adapter_config.json": "{"}, "holds an adapter alone; merge it"),
    "models--owner--name": ({"snapshots/ab/config.json": "{}"}, "the model's name: 'owner/name'"),
    "snapshots": ({"ab12/config.json": "{}"}, "the folder ab12 in it is one; give that"),
    "sentences": ({"modules.json": "[]", "0_Transformer/config.json": "{}"}, "0_Transformer in it"),
    "trained": (
        {f"checkpoint-{step}/config.json": "{}" for step in (1500, 500, 1000, 90)},
        "4 folders in it are, checkpoint-500, checkpoint-1000, checkpoint-1500 among them",
    ),
    "mistral": ({"params.json": "{}", "consolidated.safetensors": ""}, "makers' own format"),
    "packed": ({"model-q4.gguf": "GGUF"}, "a file of llama.cpp (GGUF)"),
    "empty": ({"README.md": ""}, "add"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_told_what_it_is(name, here):
    files, words = FOLDERS[name]
    for file, text in files.items():
        put(f"x/{name}/{file}", text)
    assert words in told(here / "x" / name)
    assert words in told(Path("x") / name)
    if " " not in name:
        assert words in told(f"x/{name}"), "as owner/name, too"


def test_a_file_is_told_its_folder(here):
    put("m/model.safetensors")
    put("m/config.json")
    put("m/model-q4.gguf")
    for name in ("model.safetensors", "config.json"):
        assert f"{here}/m/{name} is a file; give the folder" in told(here / "m" / name)
        assert told(f"m/{name}").endswith("with config.json and weights: m.")
    assert "llama.cpp (GGUF), which is not read" in told(here / "m" / "model-q4.gguf")


@pytest.mark.parametrize(
    ("address", "model"),
    [
        ("https://huggingface.co/openai-community/gpt2", "openai-community/gpt2"),
        ("https://huggingface.co/gpt2/", "gpt2"),
        ("huggingface.co/a/b/tree/v1.0", "a/b@v1.0"),
        ("https://hf.co/a/b/resolve/main/model.safetensors", "a/b@main"),
        ("hf://a/b", "a/b"),
        ("hf.co/gpt2", "gpt2"),
    ],
)
def test_an_address_is_told_the_name(address, model):
    assert told(address) == f"{address} is an address; give the model's name: {model!r}."


@pytest.mark.parametrize(
    "address", ["https://huggingface.co/datasets/a/b", "https://example.org/a/b/c?d", "ftp://x"]
)
def test_another_address_is_told_what_a_name_is(address):
    assert told(address) == f"{address} is an address; give a model's name, as owner/model."


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("GPT2", "gpt2"), ("GPT-2", "gpt2"), ("MiniLM", "minilm"), ("Book-Llama", "book-llama")],
)
def test_a_name_in_other_letters_is_told_the_right_one(wrong, meant, here):
    said = f"nor is there a folder {wrong} in {here}; did you mean {meant!r}?"
    assert told(wrong) == f"there is no model {wrong!r}, {said}"


def test_a_name_of_one_slash_is_told_where_its_folder_was_looked_for(here):
    with pytest.raises(HubError, match=naming(f"nor is there a folder data/mine in {here}.")):
        load_first_layer("data/mine")
    assert told("openai-community/GPT2").endswith("did you mean 'openai-community/gpt2'?")
