"""A step made in shares of its windows, against torch's own loss, gradients and optimiser."""

import copy
from dataclasses import replace

import pytest
import torch

from experiments.book_model.forward import training_loss
from experiments.book_model.loop import optimiser_of, take_step
from experiments.book_model.plan import TrainingPlan

PLAN = TrainingPlan(layers=2, d_model=8, heads=4, context=12, vocab_size=60, batch=5, dropout=0.0)


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
