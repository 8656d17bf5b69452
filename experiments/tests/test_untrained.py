"""Unselectable keys of untrained models, beside hulls asked key by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from experiments.book_model.plan import TrainingPlan
from experiments.unselectable_lm import untrained
from lnattn_book.claims.brody import b8, b9

SHAPE = {
    "layers": 2, "d_model": 4, "heads": 2, "context": 32, "vocab_size": 60, "dropout": 0.0,
    "batch": 2, "steps": 4, "learning_rate": 1e-2, "warmup": 1, "evaluate_every": 2,
}  # fmt: skip
WINDOWS = [range(32), range(59, 27, -1)]


class Projection(nn.Module):
    """x less the mean of its coordinates."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=-1, keepdim=True)


@pytest.fixture
def tiny(monkeypatch) -> None:
    monkeypatch.setattr(untrained, "PAPER_SHAPE", SHAPE)


def streams(seed: int, window: Sequence[int], *, projected: bool) -> list[np.ndarray]:
    """What each block of a new GPT-2 receives, as transformers' own hidden states tell it."""
    torch.manual_seed(seed)
    model = TrainingPlan(**SHAPE, seed=seed).new_model(end_of_text=0)
    if projected:
        for block in model.transformer.h:
            block.ln_1 = Projection()
    model.double().eval()
    with torch.no_grad():
        states = model(torch.tensor([*window])[None], output_hidden_states=True).hidden_states
    return [state[0].numpy() for state in states[: SHAPE["layers"]]]


def is_inside(key: np.ndarray, others: np.ndarray) -> bool:
    """Whether a key is a mixture of the others: then no query scores it above all of them."""
    equations = np.vstack([others.T, np.ones(len(others))])
    return linprog(np.zeros(len(others)), A_eq=equations, b_eq=[*key, 1], bounds=(0, None)).success


def share_inside(keys: np.ndarray) -> float:
    return float(np.mean([is_inside(key, np.delete(keys, n, 0)) for n, key in enumerate(keys)]))


@pytest.mark.parametrize(
    ("arm", "place", "projected"), [("full", "before", False), ("no-scaling", "keys", True)]
)
def test_shares_are_means_over_windows_of_keys_within_the_hull_of_the_others(
    tiny, arm: str, place: str, projected: bool
):
    by_seed = untrained.shares_untrained([3, 8], WINDOWS, arm, place)
    assert by_seed.shape == (2, SHAPE["layers"])
    for row, seed in zip(by_seed, [3, 8], strict=True):
        by_window = [streams(seed, window, projected=projected) for window in WINDOWS]
        if projected:  # in a basis of the plane: equations that say the same twice upset a solver
            plane = np.linalg.svd(np.ones((1, 4)))[2][1:]
            by_window = [[x @ plane.T for x in layers] for layers in by_window]
        shares = [[share_inside(x) for x in layers] for layers in by_window]
        np.testing.assert_allclose(row, np.mean(shares, axis=0))
        assert 0 < row.min() < 1


def test_seeds_are_dealt_to_draws_in_order_and_each_claim_asks_its_arm(monkeypatch):
    asked = []
    written = {}

    def shares(seeds: range, windows: Sequence, arm: str, place: str) -> np.ndarray:
        asked.append((arm, place, [*seeds], windows))
        return np.array(seeds)[:, None] / 10 + np.zeros((1, 4))

    def write(claim_id: str, row: str, draws: list, command: str) -> Path:
        written[claim_id] = draws
        return Path(claim_id)

    monkeypatch.setattr(untrained, "text_windows", lambda source, tokenizer, n: [source] * n)
    monkeypatch.setattr(untrained, "shares_untrained", shares)
    monkeypatch.setattr(untrained, "write_nulls", write)
    untrained.freeze_untrained("text", "tokens", windows=2, draws=3, seeds=2)
    assert asked == [
        ("no-scaling", "keys", [0, 1, 2, 3, 4, 5], ["text"] * 2),
        ("full", "before", [0, 1, 2, 3, 4, 5], ["text"] * 2),
    ]
    for name in (b8.claim, b9.claim):
        means = [draw["share"].value for draw in written[name]]
        np.testing.assert_allclose(means, [[0.05] * 4, [0.25] * 4, [0.45] * 4])
        assert [draw["seeds"] for draw in written[name]] == [2, 2, 2]
