"""A training step against transformers' own forward pass and torch's plain AdamW."""

from __future__ import annotations

import copy

import pytest
import torch
from families import randomise
from random_models import InMemory, attention_layer, embeddings_of, random_gpt2
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2LMHeadModel

from experiments.book_model import forward
from experiments.book_model.forward import training_loss
from experiments.book_model.loop import optimiser_of, take_step
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.snapshots import turned
from lnattn import FirstLayer, distance_terms, fold_relative
from lnattn.errors import CheckpointError
from lnattn.models.architectures import family_of


def plain_loss(model: torch.nn.Module, rows: Tensor) -> Tensor:
    """The obvious implementation: all logits, torch's cross-entropy."""
    logits = model(rows[:, :-1]).logits
    return cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def gradients(model: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def model_and_rows(dtype: torch.dtype = torch.float64) -> tuple[GPT2LMHeadModel, Tensor]:
    model = random_gpt2(seed=3, layers=2, d_model=32, heads=4, vocab=60, context=24).to(dtype)
    with torch.no_grad():  # logits of a few nats, as a trained model has them
        for parameter in model.parameters():
            parameter.mul_(0.3 if parameter.ndim == 2 else 1)
    return model, torch.randint(60, (5, 25), generator=torch.Generator().manual_seed(1))


def test_the_training_loss_and_its_gradients_are_the_plain_ones(monkeypatch) -> None:
    """Against torch's fused attention; in bfloat16 to its precision."""
    model, rows = model_and_rows()
    model.set_attn_implementation("sdpa")
    expected = plain_loss(model, rows)
    oracle = gradients(model, expected)
    model.set_attn_implementation("eager")
    monkeypatch.setattr(forward, "_ROWS", 50)  # two whole parts of rows and some
    loss = training_loss(model, "float32")(rows)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for name, gradient in gradients(model, loss).items():
        torch.testing.assert_close(gradient, oracle[name], rtol=1e-9, atol=1e-12, msg=name)
    lower = training_loss(model.float(), "bfloat16")(rows)
    assert lower.dtype == torch.float32
    assert 0 < abs(lower.item() - expected.item()) < 0.02


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_is_that_of_plain_adamw(precision: str) -> None:
    """A fused optimiser takes a gradient in another layout than its parameter's for another one."""
    plan = TrainingPlan(layers=2, d_model=8, heads=4, context=12, vocab_size=60, dropout=0.0)
    torch.manual_seed(3)
    model = plan.new_model(0)
    plain = copy.deepcopy(model)
    rows = torch.randint(60, (5, plan.context + 1))
    take_step(model, optimiser_of(model, plan), rows, plan, 9, training_loss(model, precision))
    optimiser = optimiser_of(plain, plan)
    for group in optimiser.param_groups:
        group.update(fused=False, foreach=False, lr=plan.rate(9))
    plain_loss(plain, rows).backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    optimiser.step()
    loose = 20 if precision == "bfloat16" else 1  # Adam divides by the gradient's own size
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert ours.grad.stride() == ours.stride(), name
        torch.testing.assert_close(ours, theirs, rtol=1e-3 * loose, atol=1e-5 * loose)


def architecture(name: str, **changes: object) -> torch.nn.Module:
    plan = TrainingPlan(
        layers=2, d_model=32, heads=4, context=24, vocab_size=60, dropout=0.0, architecture=name,
        **changes,
    )  # fmt: skip
    torch.manual_seed(0)
    return randomise(plan.new_model(59), seed=5, scale=0.2).double()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_every_architecture_trains_on_its_plain_loss(name: str) -> None:
    model = architecture(name)
    (_, rows) = model_and_rows()
    slopes = gradients(model, training_loss(model, "float32")(rows))
    model.set_attn_implementation("sdpa")
    expected = plain_loss(model, rows)
    for parameter, oracle in gradients(model, expected).items():
        # A Llama's own norms and eager softmax are of float32, whatever the model is.
        torch.testing.assert_close(slopes[parameter], oracle, rtol=1e-4, atol=1e-6, msg=parameter)


def test_rotary_positions_are_all_that_is_changed() -> None:
    """Attention of the first layer by a loop over complex numbers, and by lnattn's formulas."""
    model = architecture("gpt2", attention="rotary")
    with torch.no_grad():
        model.transformer.wpe.weight.zero_()
    ids = torch.randint(59, (24,), generator=torch.Generator().manual_seed(2))
    attention = model(ids[None], output_attentions=True).attentions[0][0]
    block = attention_layer(model)
    x = model.transformer.h[0].ln_1(model.transformer.wte(ids))
    turn = torch.exp(1j * 10_000.0 ** -(torch.arange(4).double() / 4))
    for head in range(4):
        query = x @ block.W_Q[head] + block.b_Q[head]
        key = x @ block.W_K[head] + block.b_K[head]
        q = torch.complex(query[:, :4], query[:, 4:])
        k = torch.complex(key[:, :4], key[:, 4:])
        for i in range(24):
            scores = [(q[i] * turn ** (i - j) * k[j].conj()).sum().real for j in range(i + 1)]
            row = torch.stack(scores).div(8**0.5).softmax(0)
            torch.testing.assert_close(attention[head, i, : i + 1], row, rtol=1e-5, atol=1e-6)
    first = turned(FirstLayer(embeddings_of(model), block))
    terms = distance_terms(fold_relative(first.attention), first.embeddings, ids)
    torch.testing.assert_close(terms.attention(), attention, rtol=1e-5, atol=1e-6)


def test_a_rotary_gpt2_learns_no_positions() -> None:
    plan = TrainingPlan(layers=1, d_model=8, heads=4, context=12, vocab_size=60, attention="rotary")
    model = plan.new_model(0)
    rows = torch.randint(60, (2, 13))
    take_step(model, optimiser_of(model, plan), rows, plan, 9, training_loss(model, "float32"))
    assert not model.transformer.wpe.weight.any()
    with pytest.raises(CheckpointError, match="rotary"):  # no plain GPT-2
        family_of(model.config.to_dict(), InMemory("twin", dict(model.state_dict())))
    with pytest.raises(CheckpointError, match=r"llama.*rotary"):
        TrainingPlan(architecture="llama", attention="rotary")
