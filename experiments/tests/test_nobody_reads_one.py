"""The arms: what their norms remove, what optimisers leave there, and runs taken up again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from experiments.nobody_reads_one.__main__ import arms, freeze, train_all
from experiments.nobody_reads_one.model import WIDTH, Norm
from experiments.nobody_reads_one.train import (
    NORMS,
    OPTIMISERS,
    SGD_DECAY,
    Arm,
    adams_step,
    directions,
    loss_of,
    start,
    train,
)
from lnattn.errors import ResultError
from lnattn.storage import read_result

DATA = torch.randint(128, (3000,), generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module", autouse=True)
def settings_restored():
    yield
    torch.use_deterministic_algorithms(False)


def test_norms_of_the_arms():
    ones, n = directions(seed=4)
    assert abs(ones @ n) < 1e-6
    torch.testing.assert_close(n.norm(), torch.tensor(1.0))
    x = torch.randn(5, WIDTH)
    for u, known in ((ones, torch.nn.LayerNorm(WIDTH)), (None, torch.nn.RMSNorm(WIDTH, eps=1e-5))):
        torch.testing.assert_close(Norm(u)(x), known(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(Norm(n)(x + 3 * n), Norm(n)(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("norm", "place"), [("LayerNorm", 0), ("removes n", 1)])
def test_no_gradient_along_the_removed_direction(norm, place):
    model = start(Arm(norm, "SGD", 0)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter)
    u = directions(0).double()
    for module in model.modules():  # the direction was rounded to float32
        if isinstance(module, Norm):
            module.u = u[place] / u[place].norm()
    loss_of(model, DATA, torch.Generator()).backward()
    for name, W in model.writers().items():
        G = W.grad if name in ("tokens", "positions") else W.grad.T
        seen = (G @ u.T).abs().amax(0) / G.abs().max()
        assert seen[place] < 1e-12
        assert seen[1 - place] > 1e-4


def test_sgd_keeps_and_decay_alone_shrinks_what_is_unseen():
    norms = train(Arm("LayerNorm", "SGD", 1), DATA, steps=50)["kept"][-1]
    np.testing.assert_allclose(norms[:, 0], 1, atol=1e-5)
    assert (abs(norms[:, 1] - 1) > 1e-3).any()
    shrunk = train(Arm("removes n", "SGD, decay", 1), DATA, steps=50)["kept"][-1]
    factor = 1.0
    buffer = 0.0
    given = SGD_DECAY[1]
    for _ in range(50):
        buffer = given["momentum"] * buffer + given["weight_decay"] * factor
        factor -= given["lr"] * buffer
    np.testing.assert_allclose(shrunk[:, 1], factor, atol=1e-5)


def test_the_prediction_for_adam_on_scales_that_are_known():
    """Rows orthogonal to u of coordinates with known scales, whose moments have settled."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.exp(0.4 * torch.randn(WIDTH, generator=generator)).double()
    u = directions(0).double()
    u /= u.norm(dim=1, keepdim=True)
    W = torch.zeros(4000, WIDTH).double()
    optimiser = torch.optim.AdamW([W])
    for place in (0, 1):
        y = torch.randn(W.shape, generator=generator).double() * scale
        m = y - (y @ u[place])[:, None] * u[place]
        state = {"step": torch.tensor(10_000), "exp_avg": m, "exp_avg_sq": (scale**2).expand_as(m)}
        step, predicted = adams_step(state, optimiser, "tokens", u)
        energy = WIDTH * (step @ u[place]).square().sum() / step.square().sum()
        assert 0.05 < energy < 0.9
        assert predicted[place].item() == pytest.approx(energy.item(), rel=0.15)


def test_runs_are_taken_up_again_and_frozen_as_one(tmp_path, monkeypatch):
    text = tmp_path / "text.jsonl"
    text.write_text(json.dumps({"text": "a small text, again and again. " * 20}), encoding="utf-8")
    out = tmp_path / "runs"
    train_all(out, text, seeds=1, first=2, steps=2)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    removed = out / f"{arms(1)[0].name}.json"
    arrays, _ = read_result(out, arms(1)[0].name)
    removed.unlink()
    train_all(out, text, seeds=1, first=2, steps=2)
    again, _ = read_result(out, arms(1)[0].name)
    np.testing.assert_array_equal(arrays["weight"], again["weight"])
    same = [path for path in out.iterdir() if path.stat().st_mtime_ns == before[path]]
    assert len(same) == len(before) - 2
    with pytest.raises(ResultError, match="another folder"):
        train_all(out, text, seeds=1, first=2, steps=3)
    stored, record = read_result(freeze(out, tmp_path, 1).parent, "nobody-reads-one")
    assert stored["weight"].shape == (len(NORMS), len(OPTIMISERS), 1, 3, 6, 2)
    np.testing.assert_array_equal(stored["weight"][0, 0, 0], arrays["weight"])
    assert record["norms"] == list(NORMS)
