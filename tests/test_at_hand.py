"""The rotary models that chapter 12 reads where it runs: fetched by a build, or missed in words."""

from __future__ import annotations

import pytest
import torch
from fake_hub import FakeHub, serving, talk_to
from families import make, save_tokenizer
from huggingface_hub import constants
from narrow_llama import narrow_llama

from booksite import inputs, model
from lnattn.errors import CheckpointError
from lnattn.models import hub
from lnattn.models.choice import Choice
from lnattn.models.hub import PINNED
from lnattn_book.page.names import ROTARY
from lnattn_book.studies.twins import available_rotary_models


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return narrow_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def hubs(llama, tmp_path, monkeypatch):
    """SmolLM2 and Pythia, made of noise, at their pinned commits, on one hub."""
    neox = tmp_path / "neox"
    make("gpt_neox", torch.float16).save_pretrained(neox)
    both = {name: FakeHub(PINNED[name].repo, PINNED[name].revision) for name in ROTARY}
    for fake, folder in zip(both.values(), (llama, save_tokenizer(neox, 50)), strict=True):
        fake.add_folder(folder)
    with serving(*both.values()) as served:
        talk_to(served, tmp_path, monkeypatch)
        monkeypatch.setenv("LNATTN_MODEL", "minilm")
        monkeypatch.delenv("LNATTN_ROTARY", raising=False)
        yield both


def offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_a_build_fetches_the_first_layers_and_chapters_read_them(hubs, tmp_path, monkeypatch):
    before = inputs.execution_digest(tmp_path, "minilm")
    assert model.resolve_model().name == "minilm"
    assert inputs.execution_digest(tmp_path, "minilm") != before  # chapters run again
    for name, fake in hubs.items():
        assert not hub.missing_files(PINNED[name])
        fake.log.clear()
    model.resolve_model()
    offline(monkeypatch)
    model.resolve_model()
    assert [model.name for model in available_rotary_models()] == list(ROTARY)
    assert not any(fake.log for fake in hubs.values())


def test_who_asks_for_the_embedded_model_asks_for_no_download(hubs, monkeypatch):
    monkeypatch.setenv("LNATTN_MODEL", "book-gpt2")
    model.resolve_model()
    assert not any(fake.log for fake in hubs.values())
    monkeypatch.setenv("LNATTN_ROTARY", ROTARY[0])
    model.resolve_model()
    assert [bool(hubs[name].log) for name in ROTARY] == [True, False]


@pytest.mark.parametrize(
    ("config", "why"),
    [("[]", "no JSON object"), ('{"model_type": "llama"}', "the embedded model: ")],
)
def test_a_default_that_cannot_be_opened_costs_a_line(config, why, tmp_path, monkeypatch):
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "config.json").write_text(config)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LNATTN_MODEL", raising=False)
    monkeypatch.setattr(model, "default_model", lambda: Choice("strange", "it is cached"))
    choice = model.resolve_model()
    assert choice.name == "book-gpt2"
    assert why in choice.why
    monkeypatch.setenv("LNATTN_MODEL", "strange")  # a model that somebody named ends the build
    with pytest.raises(CheckpointError):
        model.resolve_model()


def test_what_cannot_be_had_is_left_out_and_said_by_the_build(hubs, monkeypatch, capsys):
    smollm2, pythia = ROTARY
    hubs[smollm2].files["config.json"] = b'{"model_type": "mamba"}'
    hubs[pythia].faults["config.json"] = [("status", 404, {"X-Error-Code": "RepoNotFound"})] * 9
    model.resolve_model()
    assert f"chapter 12 does without {smollm2}: " in capsys.readouterr().out
    offline(monkeypatch)
    assert available_rotary_models() == []
    monkeypatch.setenv("LNATTN_ROTARY", "book-gpt2 no-such-model")
    assert available_rotary_models() == []
