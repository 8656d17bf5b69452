"""The majority model in count space: its loss and gradients are those of the torch model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lnattn.errors import ResultError
from lnattn.majority.model import ARMS, MajorityTransformer, arm, sequences
from lnattn.majority.results import Experiment
from lnattn.majority.train import MajorityPlan, attention_of, evaluate, train
from lnattn.paths import data_folder

PLAN = MajorityPlan(d_model=5, classes=6, length=14, margin=2, examples=60, batch=16, epochs=3)
#: Arms that the encoder layer of torch can be, too.
BUILT = [n for n, a in ARMS.items() if a.small == "none" and a.others < 4 and not a.uniform]


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


@pytest.mark.parametrize("name", BUILT)
def test_loss_and_gradients_are_those_of_the_obvious_model(name, counts):
    weights = {key: value.requires_grad_() for key, value in started(name).items()}
    loss, _ = evaluate(weights, arm(name), counts)
    loss.backward()
    model = MajorityTransformer(arm(name), PLAN.d_model, PLAN.classes).double()
    model.load_state_dict({key: value.detach() for key, value in weights.items()})
    expected = model.loss(sequences(counts), counts.argmax(dim=1))
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(weights[key].grad, parameter.grad, rtol=0, atol=1e-12)


def test_right_answers_count_by_position(counts):
    weights = started("rms")
    model = MajorityTransformer(arm("rms"), PLAN.d_model, PLAN.classes).double()
    model.load_state_dict(weights)
    right = model(sequences(counts)).argmax(dim=-1) == counts.argmax(dim=1)[:, None]
    assert evaluate(weights, arm("rms"), counts)[1].item() == pytest.approx(right.double().mean())


@pytest.mark.parametrize(("name", "part"), [("small-scores", "scores"), ("small-values", "values")])
def test_a_part_of_attentions_input_is_small(name, part):
    weights, d = started("rms"), PLAN.d_model
    whole, small = (attention_of(weights, arm(one)) for one in ("rms", name))
    factor = {"scores": d**-2, "values": 1 / d}[part]
    torch.testing.assert_close(getattr(small, part), getattr(whole, part) * factor)
    other = "values" if part == "scores" else "scores"
    torch.testing.assert_close(getattr(small, other), getattr(whole, other))


def test_a_run_begins_as_the_frozen_one_did():
    """The same loss and accuracy after one epoch of the paper's plan, from another program."""
    plan = MajorityPlan(epochs=1, decay_epochs=1000)
    made = train(arm("layernorm"), plan, seed=0)
    frozen = Experiment.read(data_folder() / "results" / "majority", "main").of("layernorm")
    first = frozen.loss[frozen.seeds.index(0), 0]
    assert made["loss"][0, 0] == pytest.approx(first, abs=1e-5)
    assert made["epoch"].tolist() == [0, 1]


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_can_be_trained_to_its_end(name):
    found = train(arm(name), replace(PLAN, d_model=6))
    assert found["keys"].shape == found["queries"].shape == (1, PLAN.classes, 6)
    assert np.isfinite(found["loss"]).all()


def test_a_run_is_its_seeds_and_a_hopeless_rate_is_named():
    one, same, other = (train(arm("rms"), PLAN, seed=seed)["loss"] for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    with pytest.raises(ResultError, match="lower the learning rate"):
        train(arm("unnormalised"), replace(PLAN, learning_rate=1e30))
