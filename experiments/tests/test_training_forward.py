"""The training step's forward pass: chunked loss, attention by matrix products, bfloat16."""

from __future__ import annotations

import pytest
import torch
from random_models import random_gpt2, randomise
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2LMHeadModel

from experiments.book_model.chunked_loss import ROWS, chunked_loss
from experiments.book_model.forward import training_loss
from experiments.book_model.plan import TrainingPlan


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


SIZE = ROWS[torch.float32]


@pytest.mark.parametrize("rows", [1, SIZE - 1, SIZE, 3 * SIZE + 5])
def test_chunked_loss_and_its_gradients_are_those_of_torch(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64) * 3
    W_E = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(40, (rows,), generator=generator)
    found = []
    for loss in (chunked_loss, lambda x, W, t: cross_entropy(x @ W.T, t)):
        a, b = x.clone().requires_grad_(), W_E.clone().requires_grad_()
        value = loss(a, b, targets)
        (2.5 * value).backward()
        found.append((value.detach(), a.grad, b.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("attention", ["lnattn_whole", "eager"])
def test_the_training_loss_and_its_gradients_are_the_plain_ones(attention: str) -> None:
    model, rows = model_and_rows()
    model.set_attn_implementation("eager")
    expected = plain_loss(model, rows)
    oracle = gradients(model, expected)
    model.set_attn_implementation(attention)
    loss = training_loss(model, "float32")(rows)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for name, found in gradients(model, loss).items():
        torch.testing.assert_close(found, oracle[name], rtol=1e-9, atol=1e-12, msg=name)


def architecture(name: str, **changes: object) -> torch.nn.Module:
    plan = TrainingPlan(
        layers=2, d_model=32, heads=4, context=24, vocab_size=60, dropout=0.0, architecture=name,
        **changes,
    )  # fmt: skip
    torch.manual_seed(0)
    return randomise(plan.new_model(59), seed=5, scale=0.2).double()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_every_architecture_trains_on_its_plain_loss(name: str) -> None:
    model, (_, rows) = architecture(name), model_and_rows()
    found = gradients(model, training_loss(model, "float32")(rows))
    model.set_attn_implementation("eager")
    expected = plain_loss(model, rows)
    for parameter, oracle in gradients(model, expected).items():
        # A Llama's own norms and eager softmax are of float32, whatever the model is.
        torch.testing.assert_close(found[parameter], oracle, rtol=1e-4, atol=1e-6, msg=parameter)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_diagonal_twin_sees_the_current_token_alone(name: str) -> None:
    rows = torch.randint(59, (1, 24), generator=torch.Generator().manual_seed(2))
    changed = rows.clone()
    changed[0, :-1] = (changed[0, :-1] + 1) % 59
    twin, whole = architecture(name, attention="diagonal"), architecture(name)
    with torch.no_grad():
        assert torch.equal(twin(rows).logits[0, -1], twin(changed).logits[0, -1])
        assert not torch.allclose(whole(rows).logits[0, -1], whole(changed).logits[0, -1])
        # At the first token there is no past: the two are one model.
        torch.testing.assert_close(twin(rows).logits[0, 0], whole(rows).logits[0, 0])
        assert not torch.allclose(twin(rows).logits[0, 1], whole(rows).logits[0, 1])
