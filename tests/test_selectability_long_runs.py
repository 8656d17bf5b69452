"""The long runs of claim B10: which are made, how they are kept, and what is read off them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lnattn.errors import ResultError
from lnattn.paths import repository
from lnattn.studies.selectability import long_runs
from lnattn.studies.selectability.evaluation import KEYS, evaluate
from lnattn.studies.selectability.long_runs import (
    LOSSES,
    LongRuns,
    best_rate,
    freeze_long,
    long_name,
    mean_and_interval,
    train_long,
)
from lnattn.studies.selectability.small_models import ARMS, PAPER_SHAPE, load_arm
from lnattn.training import loop

TOKENIZER = repository() / "data" / "book-gpt2"
STEPS = 70
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
    found = LongRuns.read(tmp_path)
    assert found.are_long
    assert found.rates_tried() == 2
    assert np.isfinite(found.losses[:, 0]).all()
    assert np.isnan(found.losses[:, 1]).all()
    for arm, record in zip(ARMS, records, strict=True):
        log = np.array([[entry[name] for name in LOSSES] for entry in record["log"]])
        np.testing.assert_array_equal(found.losses[found.arm(arm), 0], log)
        assert found.record["runs"][f"{arm}-s0"]["weights_sha256"] == record["weights_sha256"]
        short = [found.sweep[found.arm(arm), r, 1] for r in range(2)]
        assert found.rates[int(np.argmin(short))] == record["plan"]["learning_rate"]
    last = evaluate(load_arm(tmp_path / "runs" / long_name("no-scaling", 0))[0], WINDOWS).exact
    np.testing.assert_array_equal(found.unselectable[found.arm("no-scaling"), 0, -1], last)
    assert found.tokens[-1] == found.kept[-1] == pytest.approx(STEPS * 2 * 16 / 1e6)
    assert found.kept[0] == pytest.approx(64 * 2 * 16 / 1e6)
    assert found.pairs("full", "no-scaling", "held_out_loss").shape == (1, 2)
    # Theorem 1: with scaling every key of the layer can be selected.
    assert (found.shares("full", KEYS)[0] == 0).all()
    heads = found.shares("full", slice(KEYS + 1, None))
    assert heads[0].shape == (2, PAPER_SHAPE["layers"])
    assert (heads[0] > 0).any()


def frozen(arms_and_seeds: dict[str, int], tmp_path: Path, **changes: object) -> LongRuns:
    """Runs with losses and shares of their own, and a sweep of those arms alone."""
    arms, seeds = len(ARMS), len(long_runs.SEEDS)
    sweep = np.full((arms, len(long_runs.RATES), 2), np.nan)
    losses = np.full((arms, seeds, 4, 2), np.nan)
    shares = np.full((arms, seeds, 2, 4, 6, 2), np.nan)
    for number, (arm, seed) in enumerate(arms_and_seeds.items()):
        place = list(ARMS).index(arm)
        sweep[place] = losses[place, seed] = shares[place, seed] = number
    record = {"corpus": {"train": []}, "text_sha256": "a", "windows": 2, "plan": {"steps": 70}}
    record["runs"] = {long_name(arm, seed): {} for arm, seed in arms_and_seeds.items()}
    found = LongRuns(
        rates=np.array(long_runs.RATES), sweep=sweep, tokens=np.arange(4.0), losses=losses,
        kept=np.arange(2.0), unselectable=shares, record=record | changes,
    )  # fmt: skip
    found.write(tmp_path)
    return LongRuns.read(tmp_path)


def test_runs_of_another_day_are_joined(tmp_path):
    """What either has is there; what both have is taken from the later."""
    first = frozen({"full": 0, "no-scaling": 0}, tmp_path)
    later = frozen({"no-scaling": 0, "no-projection": 1}, tmp_path)
    both = later.joined(first)
    assert set(both.record["runs"]) == {"full-s0", "no-scaling-s0", "no-projection-s1"}
    for arm, seed, of in (
        ("full", 0, first),
        ("no-scaling", 0, later),
        ("no-projection", 1, later),
    ):
        place = both.arm(arm), seed
        np.testing.assert_array_equal(both.losses[place], of.losses[place])
        np.testing.assert_array_equal(both.unselectable[place], of.unselectable[place])
        np.testing.assert_array_equal(both.sweep[place[0]], of.sweep[place[0]])
    assert np.isnan(both.losses[:, 2]).all()


def test_long_runs_take_the_sweep_of_short_ones_and_no_more(tmp_path):
    short = {"runs": {"full-rate-0.01": {}}, "plan": {"steps": 7}}
    swept = frozen({"full": 0, "no-scaling": 0}, tmp_path, **short)
    later = frozen({"no-projection": 1}, tmp_path)
    for joined in (later.joined(swept), swept.joined(later)):
        assert joined.record == later.record
        np.testing.assert_array_equal(joined.losses, later.losses)
        np.testing.assert_array_equal(joined.sweep[:2], swept.sweep[:2])
        np.testing.assert_array_equal(joined.sweep[2], later.sweep[2])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("corpus", {"train": ["other"]}, "another corpus"),
        ("text_sha256", "b", "another text_sha256"),
        ("windows", 3, "another windows"),
        ("plan", {"steps": 70, "batch": 4}, "another plan"),
        ("plan", {"steps": 71}, "other steps"),
    ],
)
def test_runs_that_cannot_be_compared_are_not_joined(tmp_path, name, value, said):
    first, other = frozen({"full": 0}, tmp_path), frozen({"full": 0}, tmp_path, **{name: value})
    with pytest.raises(ResultError, match=f"{said}.*into another folder"):
        other.joined(first)


def test_what_is_frozen_is_neither_trained_nor_lost(text, tmp_path, small, monkeypatch):
    """Runs of two days, each in a folder that the other does not know."""
    monkeypatch.setattr(long_runs, "RATES", (1e-2,))
    monkeypatch.setattr(long_runs, "SEEDS", (0,))
    given = ([text], [text]), TOKENIZER, STEPS
    runs = train_long(*given[0], tmp_path / "one", *given[1:], progress=False)
    first = next(runs)
    freeze_long(tmp_path / "one", text, TOKENIZER, tmp_path, windows=2, progress=False)
    known = LongRuns.read(tmp_path)
    again = train_long(*given[0], tmp_path / "two", *given[1:], known, progress=False)
    assert next(again)["arm"] == list(ARMS)[1]
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["no-scaling-s0"]
    freeze_long(tmp_path / "two", text, TOKENIZER, tmp_path, windows=2, progress=False)
    both = LongRuns.read(tmp_path)
    np.testing.assert_array_equal(both.sweep, known.sweep)
    np.testing.assert_array_equal(both.losses[0], known.losses[0])
    assert both.record["runs"]["full-s0"]["weights_sha256"] == first["weights_sha256"]
    assert np.isfinite(both.losses[:2]).all()
    with pytest.raises(ResultError, match="do not go with 71 steps"):
        next(train_long(*given[0], tmp_path / "two", TOKENIZER, STEPS + 1, known, progress=False))
    (tmp_path / "three").mkdir()
    with pytest.raises(ResultError, match="lacks finished runs"):
        freeze_long(tmp_path / "three", text, TOKENIZER, tmp_path, windows=2, progress=False)
    text.write_text(text.read_text() + "More.")
    with pytest.raises(ResultError, match="of other texts; leave them out"):
        next(train_long(*given[0], tmp_path / "two", *given[1:], known, progress=False))


def test_without_a_finished_run_nothing_is_frozen(text, tmp_path, small):
    with pytest.raises(ResultError, match="lacks finished runs"):
        freeze_long(tmp_path, text, TOKENIZER, tmp_path)


def test_before_the_long_runs_the_short_ones_at_the_best_rates_are_frozen(
    text, tmp_path, small, monkeypatch
):
    monkeypatch.setattr(long_runs, "RATES", (1e-2,))
    runs = train_long([text], [text], tmp_path, TOKENIZER, 10 * STEPS, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(long_runs, "SEEDS", ())
        assert not list(runs)
    freeze_long(tmp_path, text, TOKENIZER, tmp_path, windows=2, progress=False)
    found = LongRuns.read(tmp_path)
    assert not found.are_long
    assert list(found.record["runs"]) == [f"{arm}-rate-0.01" for arm in ARMS]
    np.testing.assert_array_equal(found.losses[:, 0, -1], found.sweep[:, 0])
    assert found.tokens[-1] == pytest.approx(STEPS * 2 * 16 / 1e6)


def test_a_rate_that_runs_away_is_not_the_best():
    assert best_rate({0.1: 3.0, 0.2: 2.0, 0.3: float("nan")}, "full") == 0.2
    with pytest.raises(ResultError, match=r"no rate of 0\.1, 0\.2 trains full; try lower ones"):
        best_rate({0.1: float("nan"), 0.2: float("inf")}, "full")


def test_the_interval_is_student_s():
    values = np.array([0.1, 0.4, 0.2])
    mean, low, high = mean_and_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))
    assert mean_and_interval(values[:1]) == (0.1, -np.inf, np.inf)


def test_the_end_of_training_is_its_last_twentieth():
    arms, evaluations = len(ARMS), 40
    losses = np.full((arms, 1, evaluations, 2), np.nan)
    losses[0, 0] = np.arange(evaluations)[:, None] + [0.0, 100.0]
    found = LongRuns(
        rates=np.array([1.0]),
        sweep=np.zeros((arms, 1, 2)),
        tokens=np.arange(1, 1 + evaluations) * 1.0,
        losses=losses,
        kept=np.ones(1),
        unselectable=np.zeros((arms, 1, 1, 1, 2, 1)),
        record={},
    )
    np.testing.assert_array_equal(found.ends("full"), [[38.5, 139.0]])
    assert found.pairs("full", "no-scaling", "train_loss").shape == (0, 2)
