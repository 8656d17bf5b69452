"""Training the arms of the unselectable-keys experiment, and reading their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.book_model.plan import TrainingPlan
from experiments.unselectable_lm.small_models import (
    keys_of_layers,
    load_arm,
    packed,
    remove_from_layer_norm,
    train_arm,
)
from lnattn.errors import CheckpointError
from lnattn_book.page.places import repository
from lnattn_book.studies.language_models import ARMS

PLAN = TrainingPlan(
    layers=2, d_model=8, heads=4, context=16, vocab_size=8192, steps=4, batch=2,
    learning_rate=3e-3, warmup=1, weight_decay=0.0, dropout=0.0, evaluate_every=2,
)  # fmt: skip


@pytest.fixture
def double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def random_model(arm: str, seed: int = 0, std: float = 0.3) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=50, n_positions=24, n_embd=8, n_layer=3, n_head=2, initializer_range=std,
            bos_token_id=0, eos_token_id=0,
        )
    ).eval()  # fmt: skip
    remove_from_layer_norm(model, arm)
    return model


@pytest.mark.parametrize("arm", ARMS)
def test_keys_have_the_geometry_of_their_arm(double, arm: str):
    vectors = keys_of_layers(random_model(arm), range(20))
    before = vectors["before"]
    keys = vectors["keys"]
    assert keys.shape == before.shape == (3, 20, 8)
    assert vectors["heads"].shape == (3, 2, 20, 4)
    projects, scales = ARMS[arm]
    assert np.allclose(keys.sum(-1), 0, atol=1e-12) == projects
    norms = np.linalg.norm(keys, axis=-1)
    assert np.allclose(norms, np.sqrt(8), rtol=1e-2) == scales
    assert (np.abs(before.sum(-1)) > 1e-6).all()
    wanted = before
    if projects:
        wanted = wanted - wanted.mean(-1, keepdims=True)
    if scales:
        wanted = wanted / np.sqrt((wanted**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(keys, wanted, atol=1e-12)


def test_keys_of_heads_give_the_model_s_own_attention(double):
    """The scores of the last query in layer 0, from `heads`, softmaxed, against eager attention."""
    model = random_model("no-scaling")
    model.set_attn_implementation("eager")
    vectors = keys_of_layers(model, range(20))
    attention = model.transformer(torch.arange(20)[None], output_attentions=True).attentions[0]
    weight = model.transformer.h[0].attn.c_attn.weight[:, :8].detach().numpy()
    q = (vectors["keys"][0, -1] @ weight).reshape(2, 4)
    scores = np.einsum("hd,hnd->hn", q, vectors["heads"][0]) / np.sqrt(4)
    alpha = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(alpha, attention[0, :, -1].detach().numpy(), atol=1e-12)


def test_arms_start_from_the_same_numbers_and_train_no_gain_of_the_first_norm():
    models = {arm: random_model(arm) for arm in ARMS}
    full = dict(models["full"].named_parameters())
    for model in models.values():
        for name, value in model.named_parameters():
            assert torch.equal(value, full[name])
        trained = {name for name, value in model.named_parameters() if value.requires_grad}
        assert not [name for name in trained if ".ln_1." in name or name.endswith("c_attn.bias")]
        assert "transformer.h.0.ln_2.weight" in trained
    with pytest.raises(CheckpointError, match="'none'"):
        remove_from_layer_norm(models["full"], "none")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("A small corpus about keys, queries and a hull. " * 40)
    return path


def run(text: Path, folder: Path, arm: str = "no-scaling", plan: TrainingPlan = PLAN) -> dict:
    tokenizer = repository() / "data" / "book-gpt2"
    return train_arm([text], [text], folder, arm, plan, tokenizer, 100, progress=False)


def test_a_trained_arm_comes_back_as_it_was_and_resumes(text, tmp_path, monkeypatch):
    whole = run(text, tmp_path / "whole")
    model, record = load_arm(tmp_path / "whole")
    assert record["plan"] == asdict(PLAN)
    assert record["tokens_seen"] == 4 * 2 * 16
    assert record["log"][-1]["train_loss"] < record["log"][0]["train_loss"]
    assert model.transformer.h[0].attn.c_attn.bias.abs().max() == 0
    assert not list(model.transformer.h[0].ln_1.parameters())

    from experiments.book_model import loop

    step = loop.take_step
    calls = []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(loop, "take_step", stops)
    with pytest.raises(KeyboardInterrupt):
        run(text, tmp_path / "parts")
    monkeypatch.setattr(loop, "take_step", step)
    resumed = run(text, tmp_path / "parts")
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    # A finished run is not trained again, nor is another one put in its place.
    monkeypatch.setattr(loop, "take_step", None)
    assert run(text, tmp_path / "parts") == resumed
    with pytest.raises(CheckpointError, match="another run"):
        run(text, tmp_path / "parts", arm="full")


def test_packing_joins_documents_in_order():
    documents = [[1] * 3, [2] * 3, [3] * 5, [4] * 9, [5] * 2, [6] * 1]
    assert packed(documents, 4, 7) == [[1] * 3 + [2] * 3, [3] * 5 + [5] * 2]
