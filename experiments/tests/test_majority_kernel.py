"""The kernel of the majority model's long runs: loss, gradients and steps are those of torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.majority.gradients import FastLearner, accuracy_of, loss_and_gradients
from experiments.majority.kernel import _exponential, _logarithm
from lnattn_book.studies.majority.encoder import ARMS, DIRECTION, arm
from lnattn_book.studies.majority.train import Learner, MajorityPlan, batches, evaluate

PLAN = MajorityPlan(d_model=6, classes=7, length=14, margin=2, examples=600, batch=160, epochs=3)


@pytest.fixture
def counts() -> torch.Tensor:
    return torch.from_numpy(PLAN.data(3).train.astype(np.int64))


def started(name: str) -> dict[str, torch.Tensor]:
    """Parameters in float64, none of them where it starts (gains of 1, biases of 0)."""
    generator = torch.Generator().manual_seed(5)
    return {
        key: (value + 0.2 * torch.randn(value.shape, generator=generator)).double()
        for key, value in PLAN.parameters(arm(name), seed=1).items()
    }


@pytest.mark.parametrize("name", ARMS)
def test_the_kernel_is_the_torch_version(name, counts):
    """Loss, right answers and gradients of one batch, in float32; blocks that are not full."""
    arrays = {key: value.float().numpy() for key, value in started(name).items()}
    precise = {
        key: torch.from_numpy(value).double().requires_grad_() for key, value in arrays.items()
    }
    expected, right = evaluate(precise, arm(name), counts)
    expected.backward()
    rows = counts.numpy().astype(np.uint8)
    loss, gradients = loss_and_gradients(arrays, arm(name), rows)
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    assert accuracy_of(arrays, arm(name), rows) == pytest.approx(right.item(), abs=1e-12)
    assert gradients.keys() == precise.keys()
    for key, value in precise.items():
        np.testing.assert_allclose(gradients[key], value.grad, rtol=1e-4, atol=3e-6, err_msg=key)


def steps(learner: Learner, plan: MajorityPlan) -> list[float]:
    """The losses of a learner's run, whose rate is written out here."""
    rows = plan.data(2).train
    order = [batch for epoch in range(plan.epochs) for batch in batches(len(rows), 160, 2, epoch)]
    return [
        learner.step(rows[batch], plan.learning_rate * (1 - step / len(order)))
        for step, batch in enumerate(order)
    ]


@pytest.mark.parametrize("name", ARMS)
def test_fifty_steps_are_those_of_torch(name):
    plan = replace(PLAN, epochs=17, learning_rate=3e-3)
    fast = FastLearner(arm(name), plan, seed=2)
    slow = Learner(arm(name), plan, seed=2)
    ours = steps(fast, plan)
    theirs = steps(slow, plan)
    assert len(ours) == 51
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert theirs[-1] < 0.9 * theirs[0]  # something was learnt, and the same
    for key, value in slow.parameters.items():
        ended = fast.parameters[key].detach()
        np.testing.assert_allclose(ended, value.detach(), rtol=0, atol=2e-4, err_msg=key)
    if arm(name).direction == "random":
        assert torch.equal(fast.parameters[DIRECTION], plan.parameters(arm(name), 2)[DIRECTION])
    held_out = plan.data(2).test
    assert fast.accuracy(held_out) == pytest.approx(slow.accuracy(held_out), abs=0.02)


@pytest.mark.parametrize("sign", [-1, 1])
def test_exponential_and_logarithm(sign):
    """To a few units in the last digit, and what the rounding of k ln 2 adds for large numbers."""
    sizes = np.logspace(-7, np.log10(29.9), 300)
    for x in (sign * sizes).astype(np.float32):
        assert _exponential(x) == pytest.approx(np.exp(float(x)), rel=2e-7 * (1 + abs(float(x))))
        near = np.float32(1 / (1 + float(abs(x)))) if sign < 0 else np.float32(1 + float(x))
        assert _logarithm(near) == pytest.approx(np.log(float(near)), rel=3e-7, abs=0)
