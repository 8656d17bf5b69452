"""Models that were trained here, in the layers above: rotary ones turn, in text and by weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from experiments.book_model.forward import rotary_tables
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshots import Snapshot, snapshot_after
from experiments.layers_above.lone_tokens import vectors_of_layers
from experiments.layers_above.measure import in_text, lone, shuffled
from experiments.layers_above.runs import RotaryGPT2, Trained, turned_vectors
from lnattn import FirstLayer
from lnattn.errors import CheckpointError
from lnattn.models.alone import whole_model
from lnattn.models.verification import evaluating
from lnattn.rotary.weights import apply_rotary

PLAN = TrainingPlan(
    layers=2, d_model=24, heads=3, context=40, vocab_size=50, attention="rotary", dropout=0.0
)
#: Some first layer, which the tests do not ask.
_SOME = random_gpt2(seed=8, d_model=12, heads=3, vocab=15, context=9)
FIRST = FirstLayer(embeddings_of(_SOME), attention_layer(_SOME), None, {"name": "random"})


def trained(monkeypatch) -> tuple[Trained, torch.nn.Module]:
    """A random rotary GPT-2 as a snapshot gives it, and the model in its own class."""
    torch.manual_seed(0)
    whole = PLAN.new_model(0).eval()
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "wpe" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    other = PLAN.new_model(0).eval()
    other.load_state_dict(whole.state_dict())
    snapshot = Snapshot(1, 1, FIRST, PLAN, Path("nowhere"))
    monkeypatch.setattr(Snapshot, "whole", lambda _: whole)
    return Trained.of(snapshot), other


def test_a_rotary_model_reads_text_as_it_did_in_training(monkeypatch) -> None:
    """Also where `evaluating` asks for eager attention, and when its weights are dealt."""
    model, whole = trained(monkeypatch)
    ids = torch.randint(50, (1, 30), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = whole.transformer(ids).last_hidden_state
        whole.set_attn_implementation("eager")
        unturned = whole.transformer(ids).last_hidden_state
        with evaluating(model.whole):
            computed = model.whole(ids).last_hidden_state
        dealt = shuffled(model.whole, 0)
        assert isinstance(dealt, RotaryGPT2)
    torch.testing.assert_close(computed, expected)
    assert (unturned - expected).abs().max() > 0.05
    whole = whole_model(model.whole)
    with evaluating(whole.model), torch.inference_mode():
        text = in_text(whole, ids[0])
        alone = lone(whole, ids[0])
    torch.testing.assert_close(text[0], alone[0])  # layer 0: the embeddings
    assert (text[1] - alone[1]).abs().max() > 0.05


def test_the_query_stands_one_place_after_the_key(monkeypatch) -> None:
    """Of layer 1, by hand: the query of what arrives of a lone token, turned by one place."""
    model, whole = trained(monkeypatch)
    layer = turned_vectors(model.whole, [3, 7])[1]
    block = whole.transformer.h[1]
    with torch.inference_mode():
        state = whole.transformer(torch.arange(50)[:, None], output_hidden_states=True)
        x = block.ln_1(state.hidden_states[1][:, 0])
        by_role = block.attn.c_attn(x).view(50, 3, 3, 8).permute(1, 2, 0, 3)
    q = apply_rotary(by_role[0], *rotary_tables(torch.ones(50), 8))
    k = by_role[1]
    np.testing.assert_allclose(layer.vectors.queries, q[:, [3, 7]], atol=1e-5)
    np.testing.assert_allclose(layer.vectors.keys, k, atol=1e-5)
    np.testing.assert_allclose(layer.mean_query, q.mean(dim=1), atol=1e-5)


def test_learned_positions_are_asked_as_any_gpt2(monkeypatch) -> None:
    plan = TrainingPlan(layers=2, d_model=24, heads=3, context=40, vocab_size=50)
    whole = plan.new_model(0).eval()
    snapshot = Snapshot(1, 1, FIRST, plan, Path("nowhere"))
    monkeypatch.setattr(Snapshot, "whole", lambda _: whole)
    model = Trained.of(snapshot)
    assert model.vectors is vectors_of_layers
    assert model.whole is whole


def test_a_snapshot_is_taken_by_its_tokens(monkeypatch) -> None:
    by_step = [Snapshot(n, 100 * n, FIRST, PLAN, Path("nowhere")) for n in (1, 2, 4)]
    monkeypatch.setattr("experiments.book_model.snapshots.snapshots", lambda _: iter(by_step))
    assert snapshot_after("run").step == 4
    assert snapshot_after("run", 200).step == 2
    with pytest.raises(CheckpointError, match=r"300 .*100, 200, 400"):
        snapshot_after("run", 300)
