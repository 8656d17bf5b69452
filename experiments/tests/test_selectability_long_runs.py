"""The long runs of claim B10: which are made, how they are kept, and what is read off them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.book_model import loop
from experiments.unselectable_lm import long_runs
from experiments.unselectable_lm.evaluation import evaluate
from experiments.unselectable_lm.long_runs import best_rate, freeze_long, train_long
from experiments.unselectable_lm.small_models import load_arm
from lnattn.errors import ResultError
from lnattn_book.page.places import repository
from lnattn_book.studies.language_models import (
    ARMS,
    KEYS,
    LOSSES,
    PAPER_SHAPE,
    LongRuns,
    long_name,
    mean_and_interval,
)

TOKENIZER = repository() / "data" / "book-gpt2"
STEPS = 10
FIRST_KEPT = 8
WINDOWS = [list(range(100, 116)), list(range(300, 314))]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("A small corpus about keys, queries and a hull. " * 40)
    return path


@pytest.fixture
def small(monkeypatch) -> None:
    """The experiment with few rates and seeds, on windows of 16 tokens."""
    monkeypatch.setattr(long_runs, "PAPER_SHAPE", PAPER_SHAPE | {"context": 16, "batch": 2})
    monkeypatch.setattr(long_runs, "_EVALUATIONS", 4)
    monkeypatch.setattr(loop, "_FIRST_SNAPSHOT", FIRST_KEPT)
    monkeypatch.setattr(long_runs, "RATES", (3e-3, 1e-2))
    monkeypatch.setattr(long_runs, "SEEDS", (0, 1))
    monkeypatch.setattr(long_runs, "text_windows", lambda *_: WINDOWS)


def test_each_arm_goes_on_at_its_own_best_rate_seed_by_seed(text, tmp_path, monkeypatch):
    best = dict(zip(ARMS, long_runs.RATES, strict=True))

    def trained(_sources, _held_out, folder, arm, plan, *_, **__):
        loss = 2.0 - (plan.learning_rate == best[arm])
        return {"name": folder.name, "plan": asdict(plan), "log": [{"held_out_loss": loss}]}

    monkeypatch.setattr(long_runs, "train_arm", trained)
    records = list(train_long([text], [text], tmp_path, TOKENIZER, steps=200))
    assert [record["name"] for record in records] == [f"{a}-s{s}" for s in range(3) for a in ARMS]
    assert [record["plan"]["learning_rate"] for record in records] == [*best.values()] * 3
    assert {record["plan"]["steps"] for record in records} == {200}


def test_runs_are_made_frozen_and_read(text, tmp_path, small, monkeypatch):
    runs = train_long([text], [text], tmp_path / "runs", TOKENIZER, STEPS, progress=False)
    records = [next(runs) for _ in ARMS]  # of the first seed
    # Called again, it trains nothing that is there.
    monkeypatch.setattr(loop, "take_step", None)
    again = train_long([text], [text], tmp_path / "runs", TOKENIZER, STEPS, progress=False)
    assert [next(again) for _ in ARMS] == records

    freeze_long(tmp_path / "runs", text, TOKENIZER, tmp_path, windows=2, progress=False)
    result = LongRuns.read(tmp_path)
    assert result.rates_tried() == 2
    assert np.isfinite(result.losses[:, 0]).all()
    assert np.isnan(result.losses[:, 1]).all()
    for arm, record in zip(ARMS, records, strict=True):
        log = np.array([[entry[name] for name in LOSSES] for entry in record["log"]])
        np.testing.assert_array_equal(result.losses[result.arm(arm), 0], log)
        assert result.record["runs"][f"{arm}-s0"]["weights_sha256"] == record["weights_sha256"]
        short = [result.sweep[result.arm(arm), r, 1] for r in range(2)]
        assert result.rates[int(np.argmin(short))] == record["plan"]["learning_rate"]
    last = evaluate(load_arm(tmp_path / "runs" / long_name("no-scaling", 0))[0], WINDOWS).exact
    np.testing.assert_array_equal(result.unselectable[result.arm("no-scaling"), 0, -1], last)
    assert result.tokens[-1] == result.kept[-1] == pytest.approx(STEPS * 2 * 16 / 1e6)
    assert result.kept[0] == pytest.approx(FIRST_KEPT * 2 * 16 / 1e6)
    assert result.pairs("full", "no-scaling", "held_out_loss").shape == (1, 2)
    # Theorem 1: with scaling every key of the layer can be selected.
    assert (result.shares("full", KEYS)[0] == 0).all()
    heads = result.shares("full", slice(KEYS + 1, None))
    assert heads[0].shape == (2, PAPER_SHAPE["layers"])
    assert (heads[0] > 0).any()


def test_a_rate_that_runs_away_is_not_the_best():
    assert best_rate({0.1: 3.0, 0.2: 2.0, 0.3: float("nan")}, "full") == 0.2
    with pytest.raises(ResultError, match=r"0\.1, 0\.2 .*full"):
        best_rate({0.1: float("nan"), 0.2: float("inf")}, "full")


def test_the_interval_is_student_s():
    values = np.array([0.1, 0.4, 0.2])
    mean, low, high = mean_and_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))
    assert mean_and_interval(values[:1]) == (0.1, -np.inf, np.inf)


def test_the_end_of_training_is_its_last_twentieth():
    arms = len(ARMS)
    evaluations = 40
    losses = np.full((arms, 1, evaluations, 2), np.nan)
    losses[0, 0] = np.arange(evaluations)[:, None] + [0.0, 100.0]
    result = LongRuns(
        rates=np.array([1.0]),
        sweep=np.zeros((arms, 1, 2)),
        tokens=np.arange(1, 1 + evaluations) * 1.0,
        losses=losses,
        kept=np.ones(1),
        unselectable=np.zeros((arms, 1, 1, 1, 2, 1)),
        record={},
    )
    np.testing.assert_array_equal(result.ends("full"), [[38.5, 139.0]])
    assert result.pairs("full", "no-scaling", "train_loss").shape == (0, 2)
