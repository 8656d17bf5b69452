"""Gradients of a step made in shares of its windows, against those of the whole."""

import copy
from dataclasses import replace

import pytest
import torch

from lnattn.errors import CheckpointError
from lnattn.training.forward import training_loss
from lnattn.training.gradients import set_gradients, share_count
from lnattn.training.loop import optimiser_of, take_step
from lnattn.training.plan import TrainingPlan

PLAN = TrainingPlan(layers=2, d_model=8, heads=4, context=12, vocab_size=60, batch=5, dropout=0.0)
CPU = torch.device("cpu")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def parts_of_a_step():
    torch.manual_seed(3)
    model = PLAN.new_model(0)
    with torch.no_grad():  # scores that differ, as in a trained model
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    rows = torch.randint(60, (PLAN.batch, PLAN.context + 1))
    return list(model.parameters()), training_loss(model, "float32"), rows


@pytest.mark.parametrize("shares", [1, 2, 3, 5])
def test_shares_of_the_windows_have_the_gradients_of_the_whole(shares, threads):
    parameters, loss_of, rows = parts_of_a_step()
    whole = loss_of(rows)
    expected = torch.autograd.grad(whole, parameters)
    loss = set_gradients(parameters, loss_of, rows, shares, step=0)
    assert loss == pytest.approx(whole.item(), rel=1e-6)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("shares", [1, 2])
@pytest.mark.parametrize("width", [8, 32])
def test_a_step_is_that_of_torch_s_own_loss_and_gradients(shares, width):
    """A fused optimiser takes a gradient in another layout than its parameter's for another one."""
    plan = replace(PLAN, d_model=width)
    torch.manual_seed(3)
    model = plan.new_model(0)
    plain = copy.deepcopy(model)
    rows = torch.randint(60, (plan.batch, plan.context + 1))
    take_step(
        model, optimiser_of(model, plan), rows, plan, 9, training_loss(model, "float32"), shares
    )

    optimiser = optimiser_of(plain, plan)
    for group in optimiser.param_groups:
        group.update(fused=False, foreach=False, lr=plan.rate(9))
    logits = plain(rows[:, :-1]).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    optimiser.step()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert ours.grad.stride() == ours.stride(), name
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_shares_are_summed_in_one_order(threads):
    parameters, loss_of, rows = parts_of_a_step()
    found = []
    for _ in range(2):
        set_gradients(parameters, loss_of, rows, 3, step=0)
        found.append([p.grad.clone() for p in parameters])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_only_narrow_models_without_dropout_are_shared_out(threads):
    def count(**changes):
        plan = TrainingPlan(**{**vars(PLAN), **changes})
        return share_count(plan, CPU)

    assert count() == threads
    assert count(batch=2) == 2
    assert count(dropout=0.1) == count(d_model=16) == count(precision="bfloat16") == 1
    assert share_count(PLAN, torch.device("cuda")) == 1


@pytest.mark.parametrize("shares", [1, 2])
def test_a_loss_that_is_no_number_stops_the_step(shares):
    parameters, loss_of, rows = parts_of_a_step()
    with pytest.raises(CheckpointError, match="became nan at step 7; lower the learning rate"):
        set_gradients(parameters, lambda r: loss_of(r) * torch.nan, rows, shares, step=7)
    assert all(parameter.grad is None for parameter in parameters)
