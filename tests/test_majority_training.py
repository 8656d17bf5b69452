"""Training in count space against the obvious model: embed every token, attend, differentiate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lnattn.errors import ResultError, ShapeError
from lnattn.studies.majority.head import Head, attention_of, layout_of
from lnattn.studies.majority.kernel import PIECE, packed
from lnattn.studies.majority.mixing import mixing_matrix
from lnattn.studies.majority.model import (
    ARMS,
    DIRECTION,
    Arm,
    MajorityTransformer,
    arm,
    initial_parameters,
    other_normals,
    sequences,
)
from lnattn.studies.majority.steps import LANES
from lnattn.studies.majority.task import MajorityData
from lnattn.studies.majority.training import MajorityPlan, Stack

SMALL = MajorityPlan(examples=300, batch=100, length=20, classes=6, margin=3, epochs=4)


def disturb(stack: Stack, seed: int = 0, size: float = 0.3) -> None:
    """Move every parameter, so that no bias is 0 and no gain is 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        stack.flat += size * torch.randn(
            stack.flat.shape, generator=generator, dtype=stack.flat.dtype
        )


def model_of(stack: Stack, run: int) -> MajorityTransformer:
    """The obvious model with the parameters of one run of the stack."""
    model = MajorityTransformer(stack.arm, stack.plan.d_model, stack.plan.classes)
    model = model.to(stack.flat.dtype)
    state = {name: value[run].clone() for name, value in stack.parameters.items()}
    model.load_state_dict(state)
    return model


def oracle(stack: Stack, run: int, batch: np.ndarray) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of one batch of sequences by autograd."""
    model = model_of(stack, run)
    counts = torch.from_numpy(stack.data[run].train[batch].astype(np.int64))
    loss = model.loss(sequences(counts), counts.argmax(dim=1))
    loss.backward()
    return loss.item(), {
        # A vector that is not trained has no gradient.
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.named_parameters()
    }


def compare(stack: Stack, tolerance: float, batches: Sequence[np.ndarray] | None = None) -> None:
    """Loss and every gradient of a batch, run by run; gradients relative to their largest entry."""
    batches = batches or stack.batches(0)[0]
    losses = stack.backward(batches)
    got = stack.layout.views(stack.flat.grad)
    for run, batch in enumerate(batches):
        loss, gradients = oracle(stack, run, batch)
        assert losses[run] == pytest.approx(loss, rel=tolerance, abs=tolerance)
        assert set(gradients) == set(got)
        largest = max(float(gradient.abs().max()) for gradient in gradients.values())
        assert largest > 1e-6
        for name, gradient in gradients.items():
            difference = float((got[name][run] - gradient).abs().max())
            assert difference <= tolerance * largest, name


#: The arms that torch's encoder layer can have.
WHOLE_ARMS = [name for name in ARMS if ARMS[name].small == "none"]


@pytest.mark.parametrize("name", WHOLE_ARMS)
def test_loss_and_gradients_equal_autograd(name):
    """float64, two runs at a time."""
    stack = Stack(arm(name), replace(SMALL, batch=240), (3, 4), dtype=torch.float64)
    disturb(stack)
    compare(stack, 1e-12)


def test_batches_of_different_lengths():
    """A run with fewer sequences than another leaves nothing of the other's in its gradients."""
    stack = Stack(arm("layernorm"), SMALL, (3, 4, 5), dtype=torch.float64, workers=2)
    disturb(stack)
    compare(stack, 1e-12, [np.arange(30), np.arange(200), np.arange(50, 51)])


def test_several_pieces_a_class():
    """Classes that more sequences have than are computed side by side, or summed in one go."""
    size = PIECE + 1700
    plan = replace(SMALL, examples=5 * size // 4, batch=size)
    stack = Stack(arm("rms"), plan, (2,), dtype=torch.float64)
    members = (stack.data[0].train > 0).sum(axis=0)
    assert len(stack.batches(0)[0][0]) > PIECE
    assert len(set(members)) == SMALL.classes
    assert min(members) > 2 * LANES
    assert any(members % LANES)
    disturb(stack)
    compare(stack, 1e-12)


def attention_by_torch(parameters: dict[str, torch.Tensor], chosen: Arm) -> list[torch.Tensor]:
    """Scores and values of every class, one run after the other, open to autograd."""
    found = []
    for run, e in enumerate(parameters["embedding.weight"]):
        d = e.shape[-1]
        u = parameters[DIRECTION][run] if chosen.direction != "none" else None
        y = chosen.normalise(e, u)
        W_Q, W_K, W_V = parameters["layer.self_attn.in_proj_weight"][run].chunk(3)
        s, v = (y / d if chosen.small == name else y for name in ("scores", "values"))
        scores = (s @ W_Q.T) @ (s @ W_K.T).T / math.sqrt(d)
        values = v @ W_V.T @ parameters["layer.self_attn.out_proj.weight"][run].T
        found.append((0 * scores if chosen.uniform else scores, values))
    return [torch.stack(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize("name", ARMS)
def test_scores_values_and_the_way_back_equal_autograd(name):
    """Of every arm, also of those that torch's encoder layer cannot have."""
    stack = Stack(arm(name), SMALL, (3, 4), dtype=torch.float64)
    disturb(stack)
    leaves = {key: value.clone().requires_grad_() for key, value in stack.parameters.items()}
    expected = attention_by_torch(leaves, stack.arm)
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in expected]
    torch.autograd.backward(expected, upstream)
    head = Head({key: value.numpy() for key, value in stack.parameters.items()}, stack.arm)
    for found, value in zip((head.scores, head.values), expected, strict=True):
        np.testing.assert_allclose(found, value.detach().numpy(), rtol=0, atol=1e-12)
    gradients = head.gradients(*(x.numpy() for x in upstream))
    trained = {
        "embedding.weight",
        *(key for key in leaves if "self_attn" in key and "bias" not in key),
    }
    assert set(gradients) == trained | ({DIRECTION} if stack.arm.direction == "learnt" else set())
    for key, found in gradients.items():
        exact = leaves[key].grad
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * float(exact.abs().max()))


def test_examples_are_packed_four_counts_a_word():
    counts = np.array([[255, 0, 3, 128, 7], [1, 2, 0, 0, 200]], np.uint8)
    words = packed(counts)
    assert words.dtype == np.int32
    expected = [[255 + (3 << 16) + (128 << 24) - 2**32, 7, 0], [1 + (2 << 8), 200, 4]]
    np.testing.assert_array_equal(words, expected)


@pytest.mark.parametrize(("d", "classes"), [(2, 3), (3, 20), (5, 2), (8, 20), (16, 7)])
def test_sizes_that_need_padding(d, classes):
    plan = replace(SMALL, d_model=d, classes=classes, length=200, examples=40, batch=30)
    stack = Stack(arm("rms"), plan, (1,), dtype=torch.float64)
    disturb(stack)
    compare(stack, 1e-12)


@pytest.mark.parametrize("name", ["layernorm", "authors"])
def test_single_precision(name):
    stack = Stack(arm(name), replace(MajorityPlan(), examples=1000, batch=400), (0,))
    assert stack.flat.dtype == torch.float32
    disturb(stack, size=0.1)
    batches = stack.batches(0)[0]
    losses = stack.backward(batches)
    got = stack.flat.grad.clone()
    exact = Stack(stack.arm, stack.plan, (0,), dtype=torch.float64)
    with torch.no_grad():
        exact.flat.copy_(stack.flat)
    loss, gradients = oracle(exact, 0, batches[0])
    assert losses[0] == pytest.approx(loss, rel=1e-5)
    for name, value in stack.layout.views(got).items():
        torch.testing.assert_close(
            value[0].double(),
            gradients[name],
            rtol=0,
            atol=1e-5 * float(gradients[name].abs().max()),
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_thirty_steps_of_adam_take_the_same_way(dtype):
    """Two runs of a stack against torch's own Adam on two obvious models."""
    plan = replace(SMALL, epochs=15, batch=120, learning_rate=3e-3)
    stack = Stack(arm("layernorm"), plan, (5, 6), dtype=dtype, workers=2)
    models = [model_of(stack, run) for run in range(2)]
    optimisers = [torch.optim.Adam(model.parameters(), lr=plan.learning_rate) for model in models]
    steps = 30
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
        for optimiser in optimisers
    ]
    assert plan.steps_per_epoch() * plan.epochs == steps
    tolerance = 1e-11 if dtype == torch.float64 else 1e-4
    for epoch in range(plan.epochs):
        for batches in stack.batches(epoch):
            losses = stack.step(batches)
            for run, model in enumerate(models):
                counts = torch.from_numpy(stack.data[run].train[batches[run]].astype(np.int64))
                optimisers[run].zero_grad()
                loss = model.loss(sequences(counts), counts.argmax(dim=1))
                loss.backward()
                optimisers[run].step()
                schedules[run].step()
                assert losses[run] == pytest.approx(loss.item(), rel=tolerance)
    assert stack.step_number == steps
    for run, model in enumerate(models):
        for name, value in model.named_parameters():
            torch.testing.assert_close(
                stack.parameters[name][run], value.detach(), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize(("seeds", "workers"), [((0,), 2), ((0,), 50), ((0, 1, 2), 2)])
def test_threads_change_no_bit(seeds, workers):
    """Threads share a run's pieces; 50 threads are more than there are pieces."""
    plan = replace(SMALL, examples=900, batch=600)
    alone, shared = (
        Stack(arm("layernorm"), plan, seeds, workers=w, data=[plan.data(s) for s in seeds])
        for w in (1, workers)
    )
    for batches in alone.batches(0):
        np.testing.assert_array_equal(alone.step(batches), shared.step(batches))
    assert torch.equal(alone.flat, shared.flat)
    np.testing.assert_array_equal(alone.test(), shared.test())


def test_every_epoch_sees_every_example_once_in_an_order_of_its_own():
    plan = replace(SMALL, batch=70)
    stack = Stack(arm("layernorm"), plan, (3, 4))
    orders = {}
    for epoch in (0, 1):
        batches = stack.batches(epoch)
        assert [len(both[0]) for both in batches] == [70, 70, 70, 30]
        for run in range(2):
            orders[epoch, run] = np.concatenate([both[run] for both in batches])
            np.testing.assert_array_equal(np.sort(orders[epoch, run]), np.arange(240))
    assert len({order.tobytes() for order in orders.values()}) == 4
    again = Stack(arm("rms"), plan, (4,)).batches(1)
    np.testing.assert_array_equal(np.concatenate([one[0] for one in again]), orders[1, 1])


def test_accuracy_counts_positions():
    stack = Stack(arm("layernorm"), SMALL, (0, 1), dtype=torch.float64)
    disturb(stack, size=1.0)
    losses, accuracies = stack.test()
    for run in range(2):
        counts = torch.from_numpy(stack.data[run].test.astype(np.int64))
        with torch.no_grad():
            ids, labels = sequences(counts), counts.argmax(dim=1)
            model = model_of(stack, run)
            right = (model(ids).argmax(dim=-1) == labels[:, None]).double().mean()
            assert losses[run] == pytest.approx(model.loss(ids, labels).item(), rel=1e-12)
        assert 0 < accuracies[run] < 1
        assert accuracies[run] == pytest.approx(right.item(), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(
        st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(sum), min_size=1, max_size=5
    ),
)
@example(0, [[1, 0, 0, 0]])
@example(0, [[5, 0, 0, 0], [5, 0, 0, 0]])
def test_any_counts(seed, rows):
    """One token, one class, repeated examples, and ties of the largest count."""
    total = max(sum(row) for row in rows)
    for row in rows:
        row[0] += total - sum(row)
    counts = np.array(rows, dtype=np.uint8)
    plan = replace(SMALL, classes=4, length=total, d_model=4, batch=len(rows))
    stack = Stack(
        arm("rms"), plan, (seed,), data=[MajorityData(counts, counts)], dtype=torch.float64
    )
    disturb(stack, seed)
    compare(stack, 1e-11)


def test_scores_too_far_apart_for_single_precision():
    """Scores that spread over hundreds: e^S has no single-precision number; the loss is right."""
    stack = Stack(arm("rms"), replace(SMALL, initial_scale=14.0), (0,))
    scores = stack.attention().scores
    assert float((scores.amax(-1) - scores.amin(-1)).max()) > 200
    batch = stack.batches(0)[0]
    (loss,) = stack.backward(batch)
    exact = Stack(stack.arm, stack.plan, (0,), dtype=torch.float64)
    with torch.no_grad():
        exact.flat.copy_(stack.flat)
    expected, gradients = oracle(exact, 0, batch[0])
    assert loss == pytest.approx(expected, rel=1e-5)
    got = stack.layout.views(stack.flat.grad)["layer.linear1.weight"][0]
    torch.testing.assert_close(
        got.double(), gradients["layer.linear1.weight"], rtol=1e-4, atol=1e-5
    )


def test_parameters_of_the_paper():
    parameters = initial_parameters(0)
    assert sum(value.numel() for value in parameters.values()) == 584
    model = MajorityTransformer(arm("layernorm"))
    assert sum(value.numel() for value in model.parameters()) == 584
    assert {name: value.shape for name, value in model.named_parameters()} == {
        name: value.shape for name, value in parameters.items()
    }


def test_start_is_torchs_own_and_leaves_the_callers_random_state():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again = initial_parameters(7), initial_parameters(7)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    torch.manual_seed(7)
    model = MajorityTransformer(arm("authors"))
    assert all(torch.equal(first[name], value) for name, value in model.named_parameters())
    scaled = initial_parameters(7, scale=8.0)
    name = "layer.self_attn.in_proj_weight"
    torch.testing.assert_close(scaled.pop(name), 8 * first.pop(name))
    assert all(torch.equal(first[name], value) for name, value in scaled.items())


@pytest.mark.parametrize("name", ARMS)
def test_norms_of_the_arms(name):
    x = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.4
    chosen = arm(name)
    u = None if chosen.direction == "none" else 3 * x[0].roll(1) + 0.2
    y = chosen.normalise(x, u)
    expected = {"sqrt": math.sqrt(8), "inverse": 1 / math.sqrt(8)}
    if u is not None:
        assert float((y @ u).abs().max()) < 1e-12
        assert torch.linalg.matrix_rank(y, tol=1e-9) == 7
        torch.testing.assert_close(y, chosen.normalise(x, -5 * u))
    if chosen.norm == "none":
        assert torch.equal(y, x)
    elif chosen.norm == "sigma":
        sigma = x.var(dim=-1, unbiased=False, keepdim=True).sqrt()
        torch.testing.assert_close(y, x / sigma)
        assert y.norm(dim=-1).std() > 0.05
    else:
        torch.testing.assert_close(
            y.norm(dim=-1), torch.full((50,), expected[chosen.norm]).double()
        )
    along = y.sum(dim=-1).abs()
    assert (along < 1e-12).all() if chosen.project else (along > 0.01).any()


@pytest.mark.parametrize(("name", "lost"), [("other-normal", 1), ("three-normals", 3)])
def test_other_normal_vectors(name, lost):
    """What is projected along is gone, and nothing else: y is orthogonal to each normal vector."""
    x = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.4
    chosen = arm(name)
    normals = other_normals(8, chosen.others)
    torch.testing.assert_close(normals @ normals.mT, torch.eye(chosen.others).double())
    assert float(normals.sum(dim=-1).abs().max()) < 1e-12
    y = chosen.normalise(x)
    assert float((y @ normals.mT).abs().max()) < 1e-12
    assert torch.linalg.matrix_rank(y, tol=1e-9) == 8 - lost
    with pytest.raises(ShapeError, match="leave nothing of 3 dimensions"):
        other_normals(3, 2)


def test_another_normal_vector_is_layernorm_in_turned_coordinates():
    """With R orthogonal and u R = 1/√d: y_u(x) R = LN(x R), before gain and bias."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20, 8, dtype=torch.float64, generator=generator)
    (u,), ones = other_normals(8, 1), torch.ones(8, dtype=torch.float64) / math.sqrt(8)
    w = u - ones
    R = torch.eye(8).double() - 2 * torch.outer(w, w) / w.dot(w)  # the reflection that swaps them
    turned = arm("other-normal").normalise(x) @ R
    torch.testing.assert_close(turned, arm("layernorm").normalise(x @ R))


def test_along_ones_a_direction_is_layernorm():
    x = torch.randn(2, 20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ones = torch.full((2, 1, 8), 0.3, dtype=torch.float64)
    expected = arm("layernorm").normalise(x)
    torch.testing.assert_close(arm("random-normal").normalise(x, ones), expected)


@pytest.mark.parametrize(("name", "moves"), [("random-normal", False), ("learnt-normal", True)])
def test_only_a_learnt_direction_moves(name, moves):
    """Each run has a direction of its own, beside the parameters that every arm starts with."""
    stack = Stack(arm(name), SMALL, (1, 2))
    start = {key: value.clone() for key, value in stack.parameters.items()}
    assert not torch.equal(*start[DIRECTION])
    usual = Stack(arm("rms"), SMALL, (1, 2)).parameters
    assert all(torch.equal(start[key], value) for key, value in usual.items())
    for batches in stack.batches(0):
        stack.step(batches)
    assert torch.equal(stack.parameters[DIRECTION], start[DIRECTION]) is not moves
    assert not torch.equal(stack.parameters["embedding.weight"], start["embedding.weight"])


def test_uniform_attention_returns_the_mean_value():
    stack = Stack(arm("uniform-rms"), SMALL, (1,), dtype=torch.float64)
    disturb(stack)
    attention = stack.attention()
    assert not attention.scores.any()
    counts = torch.from_numpy(stack.data[0].train[:1].astype(float))
    mean = counts @ attention.values[0] / counts.sum()
    model = model_of(stack, 0)
    x = model.layer.norm1(model.embedding(sequences(counts.long())))
    bias = stack.parameters["layer.self_attn.out_proj.bias"][0]
    torch.testing.assert_close(model.layer.self_attn(x, x, x)[0], (mean + bias).expand_as(x))


def test_layernorm_arm_is_torchs_layer_norm():
    x = torch.randn(20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.layer_norm(x, (8,), eps=0.0)
    torch.testing.assert_close(arm("layernorm").normalise(x), expected)


def test_a_scale_of_d_undoes_the_authors_norm_at_the_start():
    """Norm 1/√d with W_Q, W_K and W_V times d has the scores and values of norm √d."""
    large, small = (
        attention_of(layout_of(parameters).views(flat[None]), arm(name))
        for name, parameters in (
            ("rms", initial_parameters(3)),
            ("authors", initial_parameters(3, scale=8.0)),
        )
        for flat in [torch.cat([value.flatten() for value in parameters.values()])]
    )
    torch.testing.assert_close(large.scores, small.scores)
    torch.testing.assert_close(large.values, small.values)


def test_a_run_that_diverges_is_named():
    stack = Stack(arm("rms"), SMALL, (8, 9))
    with torch.no_grad():
        stack.flat[1] = math.nan
    with pytest.raises(ResultError, match=r"'rms', seed 9, is not a number at step 0"):
        stack.step(stack.batches(0)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch = 0"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"initial_scale": math.inf}, "initial_scale"),
        ({"decay_epochs": 1}, "decay_epochs = 1"),
    ],
)
def test_plans_that_make_no_sense(change, message):
    with pytest.raises(ShapeError, match=message):
        replace(SMALL, **change)


def test_names_and_seeds_are_checked():
    with pytest.raises(ShapeError, match="'batchnorm' is not one of: layernorm"):
        arm("batchnorm")
    with pytest.raises(ShapeError, match="different numbers"):
        Stack(arm("rms"), SMALL, (1, 1))
    with pytest.raises(ShapeError, match="at least 2"):
        initial_parameters(0, d_model=1)
    with pytest.raises(ShapeError, match="no equivalent"):
        MajorityTransformer(arm("small-values"))


def test_the_last_step_has_the_last_rate():
    plan = MajorityPlan()
    assert plan.steps_per_epoch() == 14
    assert plan.rate(0) == 1e-3
    assert plan.rate(14 * 1000 - 1) == pytest.approx(1e-3 / 14_000)
    authors = replace(plan, decay_epochs=10_000)
    assert authors.rate(14 * 1000) == pytest.approx(0.9e-3)


def test_scores_far_from_zero_stay_within_single_precision():
    """Only their spread counts: a constant on all of a query's scores is no attention."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3)).astype(np.float32)
    scores = rng.uniform(0, 5, size=4).astype(np.float32)
    near, far = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    mixing_matrix(scores, values, near)
    e = np.exp(scores - (scores.max() + scores.min()) / 2)
    np.testing.assert_allclose(near, np.vstack([e * values.T, e]), rtol=1e-6)
    for shift in (300, -300):
        mixing_matrix(scores + np.float32(shift), values, far)
        np.testing.assert_allclose(far, near, rtol=1e-4, atol=1e-5)
