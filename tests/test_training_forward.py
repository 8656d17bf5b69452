"""The training step's forward pass: chunked loss, attention by matrix products, bfloat16."""

from __future__ import annotations

import pytest
import torch
from random_models import random_gpt2, randomise
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2LMHeadModel

from lnattn.errors import CheckpointError
from lnattn.training.chunked_loss import ROWS, chunked_loss
from lnattn.training.forward import fastest_precision, training_loss, whole_attention
from lnattn.training.plan import TrainingPlan


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


def test_large_logits_do_not_overflow() -> None:
    x = torch.tensor([[1e4], [-1e4]])
    loss = chunked_loss(x, torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 0]))
    assert loss == pytest.approx(1e4)


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


def test_bfloat16_stays_within_its_rounding_of_float64() -> None:
    """Numbers of 8 bits, 0.4 % each: 1 % of the loss, 5 % of each gradient's norm are allowed."""
    exact, rows = model_and_rows()
    expected = plain_loss(exact, rows)
    oracle = gradients(exact, expected)
    model, _ = model_and_rows(torch.float32)
    model.set_attn_implementation("lnattn_whole")
    loss = training_loss(model, "bfloat16")(rows)
    assert loss.item() == pytest.approx(expected.item(), rel=0.01)
    assert loss.item() != pytest.approx(expected.item(), rel=1e-6)  # it was bfloat16
    for name, found in gradients(model, loss).items():
        assert found.dtype == torch.float32
        error = (found - oracle[name]).norm() / oracle[name].norm()
        # The bias of the keys has no effect: its gradient is rounding alone in both.
        if not name.endswith("c_attn.bias"):
            assert error < 0.05, (name, float(error))


def test_grouped_keys_are_shared_by_neighbouring_heads() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, heads, 7, 4, generator=generator, dtype=torch.float64) for heads in (6, 2, 2)
    )
    found, _ = whole_attention(torch.nn.Identity(), q, k, v, None, scaling=0.3)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(found, expected.transpose(1, 2))


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


def test_a_llama_has_the_parameters_of_the_gpt2() -> None:
    gpt2, llama = (TrainingPlan(architecture=name).new_model(0) for name in ("gpt2", "llama"))
    assert llama.num_parameters() == pytest.approx(gpt2.num_parameters(), rel=0.01)
    config = llama.config
    assert (config.model_type, config.num_key_value_heads, config.hidden_act) == (
        "llama", 2, "silu",
    )  # fmt: skip
    assert llama.get_output_embeddings().weight is llama.get_input_embeddings().weight
    with pytest.raises(CheckpointError, match="heads = 2 is no multiple of 4"):
        TrainingPlan(architecture="llama", heads=2)


def test_bfloat16_is_for_processors_that_multiply_it(monkeypatch) -> None:
    for able, precision in (({"amx_bf16": True}, "bfloat16"), ({"avx2": True}, "float32")):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able)
        assert fastest_precision("cpu") == precision
    assert fastest_precision("mps") == "float32"
