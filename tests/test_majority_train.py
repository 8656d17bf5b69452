"""The majority model in count space: its loss and gradients are those of the torch model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from naming import naming

from lnattn.errors import ResultError, ShapeError
from lnattn.paths import data_folder
from lnattn_book.studies.majority.encoder import (
    ARMS,
    DIRECTION,
    MajorityTransformer,
    arm,
    sequences,
)
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.majority.train import (
    MajorityPlan,
    attention_of,
    batches,
    evaluate,
    train,
)

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


def by_torch(name: str, plan: MajorityPlan) -> tuple[list[float], dict]:
    """Losses and last parameters of a run by autograd, whose rate is written out here."""
    rows = plan.data(2).train
    parameters = {k: v.clone() for k, v in plan.parameters(arm(name), seed=2).items()}
    learnt = [v for k, v in parameters.items() if k != DIRECTION or arm(name).direction == "learnt"]
    for value in learnt:
        value.requires_grad_()
    optimiser = torch.optim.Adam(learnt)
    losses, step = [], 0
    for epoch in range(plan.epochs):
        for batch in batches(len(rows), plan.batch, 2, epoch):
            optimiser.param_groups[0]["lr"] = plan.learning_rate * (1 - step / (3 * plan.epochs))
            optimiser.zero_grad()
            counts = torch.from_numpy(rows[batch].astype(np.int64))
            loss = evaluate(parameters, arm(name), counts)[0]
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            step += 1
    return losses, parameters


@pytest.mark.parametrize("name", ["layernorm", "learnt-normal", "random-normal"])
def test_a_run_takes_the_steps_of_torch(name):
    """`train`, at its first batch and at the end of its last epoch, of three batches."""
    plan = replace(PLAN, epochs=17, learning_rate=3e-3, evaluate_every=17)
    losses, expected = by_torch(name, plan)
    assert losses[-1] < 0.9 * losses[0]  # something was learnt
    trained = train(arm(name), plan, seed=2)
    assert trained["loss"][0].tolist() == pytest.approx([losses[0], np.mean(losses[-3:])], rel=1e-6)
    with torch.no_grad():
        end = attention_of(expected, arm(name))
    np.testing.assert_allclose(trained["queries"][0], end.queries, rtol=0, atol=1e-6)


def test_the_rate_falls_with_every_step_to_zero():
    plan = replace(PLAN, epochs=4, decay_epochs=8, learning_rate=0.8)
    assert plan.steps_per_epoch() == 3  # 480 examples, the last batch as large as the others
    rates = [plan.rate(step) for step in (0, 1, 12, 24)]
    assert rates == pytest.approx([0.8, 0.8 * 23 / 24, 0.4, 0])
    assert replace(plan, batch=200).steps_per_epoch() == 3  # of 200, 200 and 80


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
    """The loss of the first batch under the paper's plan, from another program."""
    plan = MajorityPlan(epochs=1, decay_epochs=1000)
    made = train(arm("layernorm"), plan, seed=0)
    frozen = Experiment.read(data_folder() / "results" / "majority", "main").of("layernorm")
    first = frozen.loss[frozen.seeds.index(0), 0]
    assert made["loss"][0, 0] == pytest.approx(first, abs=1e-5)
    assert made["epoch"].tolist() == [0, 1]


def test_angle_and_spread_of_the_queries_at_the_start():
    """By NumPy alone, at a rate at which nothing moves: Q Kᵀ / √d, spread over all 7 keys."""
    made = train(arm("rms"), replace(PLAN, epochs=1, learning_rate=1e-12), seed=1)
    weights = {k: v.numpy().astype(float) for k, v in PLAN.parameters(arm("rms"), 1).items()}
    x = weights["embedding.weight"]
    y = x / np.sqrt((x**2).mean(axis=1, keepdims=True))
    W_Q, W_K, _ = np.split(weights["layer.self_attn.in_proj_weight"], 3)
    queries = y @ W_Q.T @ W_K / np.sqrt(6)
    scores = queries @ y.T  # [7 7], a row a query
    deviation = np.sqrt(((scores - scores.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / 7)
    np.testing.assert_allclose(made["spread"][0, 0], deviation.mean(), rtol=1e-4)
    cosine = np.abs(queries.sum(axis=1)) / np.linalg.norm(queries, axis=1) / np.sqrt(6)
    np.testing.assert_allclose(made["angle"][0, 0], np.degrees(np.arccos(cosine)).mean(), atol=1e-3)


def test_a_run_is_its_seeds_and_a_hopeless_rate_is_named():
    one, same, other = (train(arm("rms"), PLAN, seed=seed)["loss"] for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    with pytest.raises(ResultError, match="learning rate"):
        train(arm("unnormalised"), replace(PLAN, learning_rate=1e30))


def test_a_curve_is_of_the_epoch_before_it_and_of_what_was_held_out():
    """At a rate at which nothing moves: batches of 200, 200 and 80; every second epoch of five."""
    plan = replace(PLAN, batch=200, epochs=5, evaluate_every=2, learning_rate=1e-12)
    made = train(arm("rms"), plan, seed=4)
    data, weights = plan.data(4), plan.parameters(arm("rms"), 4)
    assert made["epoch"].tolist() == [0, 2, 4, 5]
    first = data.train[batches(480, 200, 4, 0)[0]]
    parts = {"first batch": first, "train": data.train, "test": data.test}
    loss, right = {}, {}
    for name, counts in parts.items():
        told = evaluate(weights, arm("rms"), torch.from_numpy(counts.astype(np.int64)))
        loss[name], right[name] = (part.item() for part in told)
    np.testing.assert_allclose(made["loss"][0], [loss["first batch"], *[loss["train"]] * 3], 1e-5)
    np.testing.assert_allclose(made["accuracy"][0], right["test"], rtol=1e-6)
    assert abs(right["test"] - right["train"]) > 1e-3
    y = weights["embedding.weight"].numpy()
    y = y / np.sqrt((y**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(made["keys"][0], y, rtol=1e-5)


@pytest.mark.parametrize("name", ["learning_rate", "initial_scale"])
@pytest.mark.parametrize("value", [0.0, -1e-3])
def test_a_plan_that_would_not_move_is_refused(name, value):
    with pytest.raises(ShapeError, match=naming(f"MajorityPlan.{name}")):
        replace(PLAN, **{name: value})
